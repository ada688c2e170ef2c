"""What `make bench` measures with: networks, checks, turns, tables. No test fails by a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim, zoo
from armtrain.runtime.engine import engine_module
from tests.bench import report, training
from tests.bench.__main__ import DEFAULT_WORKLOADS, main, without_tuning
from tests.bench.contenders import RUN, Armtrain, check_same_work, make_plan
from tests.bench.openblas import find_openblas
from tests.bench.products import (
    CONVOLUTIONS,
    LIBRARY,
    Kernels,
    convolution_row,
    depthwise,
    depthwise_row,
    gemm_row,
    in_turns,
    square,
)
from tests.bench.workloads import WORKLOADS, make_batch, make_net

TINY = WORKLOADS["tiny"]
PARAMETERS = {
    "A": 44_426,
    "B": 669_706,
    "Cn": 15_245_130,
    "C": 15_253_578,
    "D32": 11_173_962,
    "E": 5_130,
    "F": 2_236_682,
    "G": 332_298,
    "H": 858_880,
}
needs_kernels = pytest.mark.skipif(not LIBRARY.exists(), reason="make bench-kernels builds them")


@pytest.mark.parametrize("key", DEFAULT_WORKLOADS)
def test_networks_train_what_is_known_of_them(key: str) -> None:
    net = make_net(WORKLOADS[key], nn)
    trained = [p for p in net.parameters() if p.requires_grad]
    assert sum(int(np.prod(p.shape)) for p in trained) == PARAMETERS[key]


def test_a_network_made_of_other_layers_is_the_zoos() -> None:
    entry = zoo.entry("digits_cnn")
    options: dict[str, Any] = {
        "input_shape": entry.input_shape,
        "batch_size": TINY.batch,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(lr=0.01),
    }
    assert at.plan(entry.build(), **options).model_hash == make_plan(TINY, 1).model_hash


class AskedError(Exception):
    """A layer of the other module was asked for."""


def test_networks_are_made_of_the_layers_given() -> None:
    class Layers:
        Module = nn.Module

        @staticmethod
        def Conv2d(*arguments: int) -> None:  # noqa: N802
            raise AskedError(arguments)

    with pytest.raises(AskedError, match=r"\(1, 6, 5\)"):
        make_net(WORKLOADS["A"], Layers)


class Fake:
    """A contender of one tensor."""

    def __init__(self, size: int = 3, change: float = 1.0, loss: float = 2.0) -> None:
        self.names, self._values = ["w"], np.ones((size, 1), np.float32)
        self._change, self._loss = change, loss

    def state(self) -> dict[str, Any]:
        return {"w": self._values.copy()}

    def load(self, state: dict[str, Any]) -> None:
        pass

    trained = state

    def step(self) -> float:
        self._values += self._change
        return self._loss


def test_the_same_work_is_the_same() -> None:
    found = check_same_work({"one": Fake(), "other": Fake(loss=2.00001)})
    assert (found.parameters, found.tensors) == (3, 1)


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        (Fake(size=4), "not the same trained parameters"),
        (Fake(change=0.0), "other: 1 of 1 trained tensors did not change in 3 steps: w"),
        (Fake(loss=2.1), "not the same losses"),
    ],
)
def test_other_work_is_told(other: Fake, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_same_work({"one": Fake(), "other": other})


def test_the_engine_changes_every_tensor() -> None:
    plan = make_plan(TINY, 1)
    assert check_same_work({"armtrain": Armtrain(plan, make_batch(TINY))}).tensors == 8


class Clock:
    """A contender that takes told seconds."""

    def __init__(self, seconds: list[float]) -> None:
        self.calls, self._seconds = 0, seconds

    def seconds(self, steps: int) -> tuple[float, float]:
        self.calls += 1
        cpu = self._seconds[self.calls % len(self._seconds)]
        return cpu, 10 * cpu


def test_turns_are_medians_of_as_many_rounds_for_all() -> None:
    slow, fast = Clock([3.0, 1.0, 8.0]), Clock([0.5])
    cpu, wall = training.in_turns({"slow": slow, "fast": fast}, 0.1)
    assert (cpu, wall) == ({"slow": 3.0, "fast": 0.5}, {"slow": 30.0, "fast": 5.0})
    assert slow.calls == fast.calls == 2 + 5
    assert training.ratios(cpu, "fast") == {"slow": 6.0}
    assert training.ratios(cpu, "torch") == {}


def test_counts_of_works_hide_the_clocks_steps() -> None:
    counts: list[int] = []

    def work(count: int) -> float:
        counts.append(count)
        return 1e-4 * count

    assert in_turns({"work": work}, 3) == {"work": pytest.approx(1e-4)}
    assert counts == [1, 1, 100, 100, 100]


def test_shapes_count_and_name_themselves() -> None:
    shape = square(2, 8, 3, 5, 3, 2)
    assert str(shape) == "3>5@8x8 3x3 s2 b2"
    assert shape.flop == 2 * 2 * 4 * 4 * 5 * 3 * 9
    assert shape.sizes == (2 * 8 * 8 * 3, 9 * 3 * 5, 2 * 4 * 4 * 5)
    filtered = depthwise(1, 6, 4, 1)
    assert filtered.flop == 2 * 6 * 6 * 4 * 9
    assert filtered.sizes == (144, 36, 144)
    assert len(set(CONVOLUTIONS)) == len(CONVOLUTIONS)


@needs_kernels
def test_products_are_those_of_numpy() -> None:
    kernels = Kernels("c")
    row = gemm_row(kernels, find_openblas(), (5, 7, 9), 1)
    assert row["armtrain"] > 0
    shape = square(1, 4, 2, 3, 1)
    x, w, y, scratch = kernels.arrays(shape)
    kernels.convolve(0, shape, [x, w, y, scratch], 1)
    expected = x.reshape(16, 2) @ w.reshape(2, 3)
    np.testing.assert_allclose(y.reshape(16, 3), expected, rtol=1e-5, atol=1e-6)


@needs_kernels
def test_rows_of_convolutions_have_all_passes() -> None:
    kernels = Kernels("c")
    row = convolution_row(kernels, square(1, 4, 2, 3, 3), 1)
    assert row["grad_w_share"] == pytest.approx(row["grad_w"] / row["roof"])
    plain = depthwise_row(kernels, depthwise(1, 4, 3, 1), 1, None)
    assert plain["grad_x_armtrain_seconds"] > 0
    for part, rows in (("convolutions", [row]), ("depthwise", [plain])):
        assert rows[0]["shape"] in report.text_of(part, rows)
    with pytest.raises(ValueError, match="'abacus' does not run here"):
        Kernels("abacus")


def test_tuning_is_left_out_of_the_environment() -> None:
    given = {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "4", "ARMTRAIN_CPU": "c", "A": "1"}
    assert without_tuning(given) == {"A": "1"}


def test_tables_line_up() -> None:
    lines = report.table(["a", "bcd"], [["efg", "1"]]).split("\n")
    assert lines == ["a    bcd", "efg    1"]
    assert report.text_of("busy", []).endswith("nothing to compare")


def measured(tmp_path: Path, *words: str) -> tuple[str, dict[str, Any]]:
    """Run the bench on the tiny network; return what it printed and what it wrote."""
    said: list[str] = []
    output = tmp_path / "bench.json"
    options = ["--seconds", "0.001", "--repeats", "1", "--output", str(output)]
    assert main(["--workloads", "tiny", *options, *words], said.append) == 0
    written: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return "\n".join(said), written


def test_a_run_prints_and_writes_its_figures(tmp_path: Path) -> None:
    frameworks = ["armtrain", *([training.RUN] if RUN.exists() else [])]
    text, told = measured(tmp_path, "--parts", "steps", "memory", "--frameworks", *frameworks)
    assert told["machine"]["kernel_level"] == engine_module().kernel_levels()[-1]
    (steps,), (memory,) = told["steps"], told["memory"]
    assert list(steps["cpu_seconds"]) == frameworks
    assert steps["flops_per_step"] > 0
    assert memory["arena_bytes"] >= memory["lower_bound_bytes"]
    for name in frameworks:
        over = memory["peak_over_arena_bytes"][name]
        assert memory["peak_bytes"][name] == memory["arena_bytes"] + over
        assert over > 0
    assert "tiny CNN 8x8" in text
    assert "Peak of the whole process" in text


def test_what_is_missing_is_told_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.bench.__main__.has_torch", lambda: False)
    words = ["--parts", "steps", "--frameworks", "armtrain", "torch"]
    text, told = measured(tmp_path, *words, "--json")
    assert json.loads(text) == told
    assert list(told["steps"][0]["cpu_seconds"]) == ["armtrain"]
    assert told["steps"][0]["cpu_ratio_to_torch"] == {}
    (reason,) = [r for r in told["machine"]["left_out"] if r.startswith("torch")]
    assert "pip install torch" in reason


def test_two_threads_and_a_busy_processor(tmp_path: Path) -> None:
    if engine_module().usable_cpus() < 2:
        pytest.skip("needs two processors")
    words = ["--parts", "threads", "busy", "--frameworks", "armtrain"]
    _, told = measured(tmp_path, *words)
    row = told["threads"][0]["armtrain"]
    assert row["speedup"] == pytest.approx(row["1"] / row["2"])
    assert told["busy"][0]["ratio"] > 0
