"""Targets that a step would refuse are refused before the first one, with their row, by both."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.cli.main import main
from armtrain.errors import DataError, NonFiniteError

RUN = Path(__file__).resolve().parents[2] / "build" / "armtrain-run"
N, BATCH, CLASSES, PLACES = 20, 8, 3, 4


class Places(nn.Module):
    """Logits of (N, classes, places)."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, CLASSES * PLACES)

    def forward(self, x: Any) -> Any:
        """Return them."""
        return self.last(x).reshape(-1, CLASSES, PLACES)


LOSSES: dict[str, tuple[nn.Loss, nn.Module, float]] = {
    "binary": (nn.BCEWithLogitsLoss(), nn.Linear(4, CLASSES), 1.0),
    "classes": (nn.CrossEntropyLoss(probabilities=True), nn.Linear(4, CLASSES), 1.0),
    "pairs": (nn.CosineEmbeddingLoss(), nn.Linear(4, CLASSES), 1.0),
    "places": (nn.CrossEntropyLoss(ignore_index=2), Places(), 1.0),
    "divergence": (nn.KLDivLoss(), nn.Linear(4, CLASSES), 1.0),
    "logarithms": (nn.KLDivLoss(log_target=True), nn.Linear(4, CLASSES), -1.0),
    "numbers": (nn.MSELoss(), nn.Linear(4, CLASSES), 1.0),
    "distances": (nn.HuberLoss(), nn.Linear(4, CLASSES), 1.0),
}
"""Name -> a loss, a network for it and a target that it takes."""
PROBES = (-1e30, -2.0, -1.0, -0.5, -1e-30, 0.0, 0.5, 1 - 2**-24, 1.0, 1 + 2**-23, 1.5, 2.0, 3.0)
PROBES += (88.5, 88.75, 255.0, 1e30)


def plan_of(name: str) -> at.Plan:
    loss, net, _ = LOSSES[name]
    options: dict[str, Any] = {"loss": loss, "optimizer": optim.SGD(lr=0.0), "threads": 1}
    return at.plan(net, input_shape=(4,), batch_size=BATCH, **options)


def data(name: str, bad: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return samples with good targets but two, of rows 13 and 17."""
    x = np.random.default_rng(0).random((N, 4), np.float32)
    y = np.full((N, PLACES if name == "places" else CLASSES), LOSSES[name][2], np.float32)
    if bad is not None:
        y[13, 2] = y[17, 1] = bad
    return x, y


def is_taken(what: Any, *args: Any, **options: Any) -> bool:
    """Tell whether a call takes its targets."""
    try:
        what(*args, **options)
    except (DataError, NonFiniteError):
        return False
    return True


@pytest.mark.parametrize("name", LOSSES)
def test_what_opening_refuses_is_what_a_step_refuses(name: str) -> None:
    trainer = at.Trainer(plan_of(name))
    for value in PROBES:
        x, y = data(name, value)
        opened = is_taken(trainer.open, (x, y), targets=True)
        step = is_taken(trainer._engine.train_step, x[10:18], y[10:18], 8)
        evaluation = is_taken(trainer._engine.evaluate_step, x[10:18], y[10:18], 8)
        assert (opened, evaluation) == (step, step), value


@pytest.mark.parametrize(
    ("name", "bad", "said"),
    [
        ("binary", 255.0, "targets must lie in 0..1, row 13 (counted from 0) has 255 at element 2"),
        ("binary", -1.0, "make (y + 1) / 2 of -1 and 1"),
        ("classes", 1.5, "must lie in 0..1, row 13 (counted from 0) has 1.5 at element 2"),
        ("pairs", 0.0, "lie in -1..1 in steps of 2, row 13 (counted from 0) has 0 at element 2"),
        ("places", 3.0, "lie in 0..2 in steps of 1, row 13 (counted from 0) has 3 at element 2"),
        ("places", 0.5, "has 0.5 at element 2; cross-entropy of places needs whole numbers"),
        (
            "places",
            -100.0,
            "leave places of one number out with the loss's ignore_index (as ignore",
        ),
        ("divergence", -0.25, "lie in 0..inf, row 13 (counted from 0) has -0.25 at element 2"),
        ("logarithms", 90.0, "lie in -inf..88.5, row 13 (counted from 0) has 90 at element 2"),
    ],
)
@pytest.mark.parametrize("extra", [[], ["--no-preflight"]])
def test_both_front_ends_name_the_row(
    name: str,
    bad: float,
    said: str,
    extra: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan_of(name).save(tmp_path / "m.plan")
    for file, value in (("good", None), ("bad", bad)):
        x, y = data(name, value)
        np.savez(tmp_path / f"{file}.npz", x=x, y=y)
    for given in (["bad.npz"], ["good.npz", "--validation", f"npz:{tmp_path}/bad.npz"]):
        args = [f"{tmp_path}/m.plan", "--data", f"npz:{tmp_path}/{given[0]}", *given[1:]]
        args += ["--epochs", "1", *extra]
        assert main(["train", *args]) == 1
        ours = capsys.readouterr().err.removeprefix("armtrain train: ")
        done = subprocess.run([str(RUN), *args], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, f"armtrain-run: {ours}")
        assert said in ours
        assert f"{tmp_path}/bad.npz:y: targets" in ours
        assert ours.endswith(" (2 in all)\n")


@pytest.mark.parametrize("call", ["fit", "validation", "evaluate", "step"])
def test_every_use_of_targets_names_the_row(call: str) -> None:
    trainer, bad = at.Trainer(plan_of("pairs")), data("pairs", 0.5)
    calls: dict[str, Any] = {
        "fit": lambda: trainer.fit(bad, 1, progress=False, preflight=False),
        "validation": lambda: trainer.fit(data("pairs"), 1, validation=bad, progress=False),
        "evaluate": lambda: trainer.evaluate(bad),
        "step": lambda: trainer.step(bad[0][12:20], bad[1][12:20]),
    }
    row = 1 if call == "step" else 13
    with pytest.raises(DataError, match=rf"y: targets .* row {row} \(.* has 0.5"):
        calls[call]()
    assert trainer._engine.get_state()["step"] == 0


@pytest.mark.parametrize("name", LOSSES)
def test_random_data_have_targets_that_the_loss_takes(name: str, tmp_path: Path) -> None:
    plan = plan_of(name)
    plan.save(tmp_path / "m.plan")
    trainer = at.Trainer(plan)
    trainer.fit("random:samples=40", 1, progress=False)
    trainer.save(tmp_path / "ours")
    args = ["m.plan", "--data", "random:samples=40", "--epochs", "1", "--save", "theirs"]
    subprocess.run([str(RUN), *args], cwd=tmp_path, capture_output=True, check=True)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("classes", {3: 0.5}, ["1 of 20 targets do not sum to 1, the first one, of row 3"]),
        ("classes", {}, []),
        ("binary", {3: 0.5}, []),
    ],
)
def test_shares_that_do_not_sum_to_1_are_told(
    name: str,
    change: dict[int, float],
    said: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Those of half precision do."""
    plan_of(name).save(tmp_path / "m.plan")
    shares = np.random.default_rng(1).random((N, CLASSES))
    shares = (shares / shares.sum(axis=1, keepdims=True)).astype(np.float16)
    for row, factor in change.items():
        shares[row] *= np.float16(factor)
    np.savez(tmp_path / "d.npz", x=data(name)[0], y=shares)
    args = [f"{tmp_path}/m.plan", "--data", f"npz:{tmp_path}/d.npz", "--epochs", "1"]
    assert main(["train", *args]) == 0
    done = subprocess.run([str(RUN), *args], capture_output=True, text=True, check=True)
    for text in (capsys.readouterr().out, done.stdout):
        told = [line for line in text.splitlines() if line.startswith("warning: ")]
        assert len(told) == len(said)
        for line, part in zip(told, said, strict=True):
            assert part in line
            assert "but to 0.5" in line


def test_places_of_many_classes_are_not_told_to_be_scaled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are labels, whose size means nothing."""
    classes = 2000

    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(1, classes)

        def forward(self, x: Any) -> Any:
            return self.last(x).transpose(1, 2)

    options: dict[str, Any] = {"optimizer": optim.SGD(lr=0.1), "loss": nn.CrossEntropyLoss()}
    at.plan(Many(), input_shape=(2, 1), batch_size=4, **options).save(tmp_path / "m.plan")
    y = np.array([[0, classes - 1], [5, 7]] * 2, np.float32)
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).random((4, 2, 1)), y=y)
    args = [f"{tmp_path}/m.plan", "--data", f"npz:{tmp_path}/d.npz", "--epochs", "1"]
    assert main(["train", *args]) == 0
    done = subprocess.run([str(RUN), *args], capture_output=True, text=True, check=True)
    assert "warning" not in capsys.readouterr().out + done.stdout
