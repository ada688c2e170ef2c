"""Labels and values that would train silently wrong are refused or told before the first step.

Cases DATA-07, DATA-08 and DATA-15 (the range); both front ends say the same.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.cli.main import main

RUN = Path(__file__).resolve().parents[2] / "build" / "armtrain-run"
SAMPLES = 40


def plan_of(classes: int, path: Path) -> str:
    """Write a classifier of four numbers; 0 classes: a regression of two."""
    loss = nn.CrossEntropyLoss() if classes else nn.MSELoss()
    net = nn.Sequential(nn.Linear(4, classes or 2))
    options = {"loss": loss, "optimizer": optim.SGD(lr=0.01), "threads": 1}
    at.plan(net, input_shape=(4,), batch_size=8, **options).save(path / "m.plan")
    return str(path / "m.plan")


def both(
    path: Path, x: np.ndarray, y: np.ndarray, classes: int, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Train one epoch with both; they must end alike and say the same. Return exit code and text.

    What each says by itself (epochs, memory) is left out.
    """
    np.savez(path / "d.npz", x=x, y=y)
    args = [plan_of(classes, path), "--data", f"npz:{path}/d.npz", "--epochs", "1"]
    code = main(["train", *args])
    captured = capsys.readouterr()
    done = subprocess.run([str(RUN), *args], capture_output=True, text=True, check=False)
    said = [line for line in captured.out.splitlines() if line.startswith("warning: ")]
    theirs = [line for line in done.stdout.splitlines() if line.startswith("warning: ")]
    assert said == theirs
    error = captured.err.strip().removeprefix("armtrain train: ")
    if "label" not in error:  # those suggest repairs of their own
        assert error == done.stderr.strip().removeprefix("armtrain-run: ")
    else:
        assert error.partition("; the first bad")[0] in done.stderr
        assert ("labels look 1-based: subtract 1" in error) == ("1-based" in done.stderr)
        ours, theirs_too = (text.partition("ignore_index")[2] for text in (error, done.stderr))
        assert ours == theirs_too.strip()
    assert code == done.returncode
    return code, "\n".join([*said, error])


def inputs(n: int = SAMPLES) -> np.ndarray:
    return np.random.default_rng(0).random((n, 4), np.float32)


def test_labels_from_1_to_10_of_ten_classes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = both(tmp_path, inputs(), np.arange(SAMPLES) % 10 + 1, 10, capsys)
    assert code == 1
    assert "0..9, these lie in 1..10; the first bad one is in row 9" in said
    assert "labels look 1-based: subtract 1" in said


def test_eight_labels_up_to_10_of_eight_classes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    y = np.resize([1, 2, 3, 4, 7, 8, 9, 10], SAMPLES)
    code, said = both(tmp_path, inputs(), y, 8, capsys)
    assert code == 1
    assert "0..7, these lie in 1..10; the first bad one is in row 5" in said
    assert "1-based" not in said
    assert "8 classes: map them to 0..7" in said


def test_a_negative_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    y = np.arange(SAMPLES) % 3
    y[3] = -1
    code, said = both(tmp_path, inputs(), y, 3, capsys)
    assert code == 1
    assert "these lie in -1..2; the first bad one is in row 3" in said
    assert said.endswith("; ignore_index=-1 of the loss leaves such samples out")
    y[4] = -3
    code, said = both(tmp_path, inputs(), y, 3, capsys)
    assert code == 1
    assert "make all of them -1: ignore_index=-1 of the loss leaves such samples out" in said


def test_a_mask_of_0_and_255(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    y = np.where(np.arange(SAMPLES) % 2, 255, 0).astype(np.uint8)
    code, said = both(tmp_path, inputs(), y, 2, capsys)
    assert code == 1
    assert "row 1 (counted from 0)" in said
    assert "255 to 1" in said


@pytest.mark.parametrize("column", ["x", "y"])
def test_a_nan_is_named_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str
) -> None:
    x, y = inputs(), inputs()[:, :2]
    {"x": x, "y": y}[column][31, 1] = np.nan
    code, said = both(tmp_path, x, y, 0, capsys)
    assert code == 1
    assert f"d.npz:{column}: row 31 (counted from 0) is not finite at element 1" in said
    assert "1 in all; nothing was trained" in said


@pytest.mark.parametrize(
    ("x", "y", "classes", "said"),
    [
        (inputs() * np.float32(255), np.arange(SAMPLES) % 2, 2, ["looks like pixels"]),
        (inputs() * np.float32(9e4), np.arange(SAMPLES) % 2, 2, ["scale them"]),
        (np.full((SAMPLES, 4), 0.5), np.arange(SAMPLES) % 2, 2, ["the same inputs"]),
        (inputs(), np.full(SAMPLES, 1), 2, ["all samples are of class 1"]),
        (inputs(), np.arange(SAMPLES) % 9 + 1, 12, ["3 of 12 classes have no samples: 0, 10, 11;"]),
        (inputs(), np.arange(SAMPLES) // 38, 2, ["class 0 has 38 samples, class 1 only 2"]),
        (inputs(), np.full((SAMPLES, 2), 3e3, np.float32), 0, ["same targets", "3000..3000"]),
        (inputs(), np.arange(SAMPLES) % 2, 2, []),
    ],
)
def test_what_looks_wrong_is_told(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    x: np.ndarray,
    y: np.ndarray,
    classes: int,
    said: list[str],
) -> None:
    code, text = both(tmp_path, x, y, classes, capsys)
    assert code == 0
    lines = text.splitlines()
    assert len(lines) == len(said)
    for line, part in zip(lines, said, strict=True):
        assert line.startswith("warning: training data: ")
        assert part in line


def test_it_can_be_switched_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = inputs() * np.float32(255)
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(SAMPLES) % 2)
    args = [plan_of(2, tmp_path), "--data", f"npz:{tmp_path}/d.npz", "--epochs", "1"]
    args += ["--no-preflight"]
    assert main(["train", *args]) == 0
    assert "warning" not in capsys.readouterr().out
    done = subprocess.run([str(RUN), *args], capture_output=True, text=True, check=True)
    assert "warning" not in done.stdout
