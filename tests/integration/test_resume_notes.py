"""Resuming under another plan of the same model: what differs is said, by both front ends."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

import armtrain as at
from armtrain import nn, optim

ROOT = Path(__file__).resolve().parents[2]
FRONT_ENDS = {
    "armtrain": [sys.executable, "-m", "armtrain", "train"],
    "armtrain-run": [str(ROOT / "build" / "armtrain-run")],
}
NOTE = "was written under other settings of the optimizer"
SGD = optim.SGD(lr=0.1, momentum=0.9)
CHANGES: dict[str, dict[str, Any]] = {
    "lr": {"optimizer": SGD.with_options(lr=0.2)},
    "momentum": {"optimizer": SGD.with_options(momentum=0.5)},
    "nesterov": {"optimizer": SGD.with_options(nesterov=True)},
    "weight_decay": {"optimizer": SGD.with_options(weight_decay=0.1)},
    "dampening": {"optimizer": SGD.with_options(dampening=0.5)},
    "clip_norm": {"clip_norm": 0.001},
    "group": {"param_groups": [{"params": "*.bias", "lr": 0.01}]},
}


@pytest.fixture(params=FRONT_ENDS)
def front(request: pytest.FixtureRequest) -> list[str]:
    """Return the command that trains."""
    return FRONT_ENDS[request.param]


def save_plan(path: Path, **changes: Any) -> None:
    """Write a plan that differs from the others in `changes` alone."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    options = {"loss": nn.CrossEntropyLoss(), "optimizer": SGD, "clip_norm": 100.0}
    at.plan(net, input_shape=(1, 2, 2), batch_size=4, **(options | changes)).save(path)


def train(front: list[str], folder: Path, plan: str, epochs: int) -> str:
    """Train on and return what was said."""
    options = ["--data", "random:samples=8", "--epochs", str(epochs), "--resume"]
    done = subprocess.run(
        [*front, str(folder / plan), *options, "--checkpoint", str(folder / "c")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_another_clip_value_is_told(front: list[str], tmp_path: Path) -> None:
    save_plan(tmp_path / "a.plan", clip_norm=None, clip_value=1.0)
    save_plan(tmp_path / "b.plan", clip_norm=None, clip_value=0.5)
    train(FRONT_ENDS["armtrain-run"], tmp_path, "a.plan", 1)
    assert train(front, tmp_path, "b.plan", 2).count(NOTE) == 1


@pytest.mark.parametrize("change", CHANGES)
def test_other_optimizer_settings_are_told(front: list[str], change: str, tmp_path: Path) -> None:
    save_plan(tmp_path / "a.plan")
    save_plan(tmp_path / "b.plan", **CHANGES[change])
    train(FRONT_ENDS["armtrain-run"], tmp_path, "a.plan", 1)
    assert train(front, tmp_path, "b.plan", 2).count(NOTE) == 1
    assert NOTE not in train(front, tmp_path, "b.plan", 3)


def test_the_same_settings_are_not_told(front: list[str], tmp_path: Path) -> None:
    save_plan(tmp_path / "a.plan")
    save_plan(tmp_path / "b.plan", threads=1, board="raspberrypi-5", budget="1 MiB")
    train(FRONT_ENDS["armtrain-run"], tmp_path, "a.plan", 1)
    assert NOTE not in train(front, tmp_path, "b.plan", 2)


def test_a_checkpoint_that_does_not_know_its_settings_is_loaded(
    front: list[str], tmp_path: Path
) -> None:
    save_plan(tmp_path / "a.plan")
    save_plan(tmp_path / "b.plan", **CHANGES["lr"])
    train(FRONT_ENDS["armtrain-run"], tmp_path, "a.plan", 1)
    (file,) = (tmp_path / "c").glob("*.ckpt")
    content = bytearray(file.read_bytes())
    content[160:168] = bytes(8)
    content[24:28] = zlib.crc32(content[28:]).to_bytes(4, "little")
    file.write_bytes(content)
    said = train(front, tmp_path, "b.plan", 2)
    assert "resumed at step 2" in said
    assert NOTE not in said
