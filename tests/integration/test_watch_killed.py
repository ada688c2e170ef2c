"""SIGKILL under early stopping, best weights and ReduceLROnPlateau, resumed by either front end.

A run is stopped by a standard output that takes nothing more: an epoch's report comes after its
best weights and its line of the log, and before the checkpoint that knows of them.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import armtrain as at
from armtrain import nn, optim

ROOT = Path(__file__).resolve().parents[2]
FRONT_ENDS = (
    [sys.executable, "-m", "armtrain", "train"],
    [str(ROOT / "build" / "armtrain-run")],
)
MEASURED = ("epoch", "train_loss", "val_loss", "val_accuracy")
PATIENCE = 2
AUGMENT = "noise=0.001"
PLATEAU = "plateau:patience=0,factor=0.5,threshold=0.05,cooldown=1"
DATA, HELD = "random:samples=22,seed=3", "random:samples=12,seed=5"
TRAIN = ["m.plan", "--data", DATA, "--validation", HELD, "--schedule", PLATEAU]
TRAIN += ["--augment", AUGMENT, "--early-stopping", str(PATIENCE), "--resume", "--json"]


def command(front: list[str], name: str, epochs: int, *extra: str) -> list[str]:
    """Return the command of a run whose files are called after `name`."""
    outputs = ["--checkpoint", name, "--keep-best", f"{name}.best", "--log", f"{name}.log"]
    return [*front, *TRAIN, *outputs, "--epochs", str(epochs), *extra]


def finish(front: list[str], name: str, epochs: int) -> tuple[bool, int | None]:
    """Train up to so many epochs; return whether it stopped early, and the best epoch."""
    if front is FRONT_ENDS[0]:
        options: dict[str, Any] = {"checkpoint": name, "log": f"{name}.log", "resume": True}
        options |= {"keep_best": f"{name}.best", "early_stopping": PATIENCE, "progress": False}
        trainer = at.Trainer("m.plan")
        options |= {"validation": HELD, "schedule": PLATEAU, "augment": AUGMENT}
        history = trainer.fit(DATA, epochs, **options)
        return history.stopped_early, history.best_epoch
    done = subprocess.run(
        command(front, name, epochs), check=True, capture_output=True, timeout=120
    )
    summary = json.loads(done.stdout.splitlines()[-1])
    return summary["stopped_early"], summary["best_epoch"]


def log_of(name: str) -> list[list[float]]:
    """Return what was measured, an epoch a line."""
    lines = Path(f"{name}.log").read_text().splitlines()
    return [[json.loads(line)[field] for field in MEASURED] for line in lines]


def newest(name: str) -> Path:
    """Return the newest checkpoint of a directory."""
    return Path(name) / max(os.listdir(name))


def kill_at_report(front: list[str], name: str, epoch: int, *extra: str) -> None:
    """Train on and kill the run when it would report this epoch."""
    reader, writer = os.pipe()
    size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, bytes(size))
    log = Path(f"{name}.log")
    try:
        with subprocess.Popen(command(front, name, 100, *extra), stdout=writer) as process:
            try:
                while not log.exists() or log.read_text().count("\n") < epoch:
                    assert process.poll() is None
                    time.sleep(0.002)
            finally:
                process.kill()
    finally:
        os.close(reader)
        os.close(writer)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, with a plan whose validation loss soon grows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.Tanh(), nn.Linear(6, 3))
    options: dict[str, Any] = {"optimizer": optim.AdamW(lr=0.1), "loss": nn.CrossEntropyLoss()}
    at.plan(net, input_shape=(3, 2, 2), batch_size=8, threads=1, **options).save("m.plan")
    return tmp_path


@pytest.mark.parametrize(
    ("extra", "saved"),
    [((), 0), (("--checkpoint-every", "1"), 2)],
    ids=["between epochs", "within an epoch"],
)
def test_killed_and_resumed_runs_end_as_an_undisturbed_one(
    extra: tuple[str, ...], saved: int, work: Path
) -> None:
    whole = finish(FRONT_ENDS[1], "whole", 100)
    epochs = len(log_of("whole"))
    assert epochs >= 4
    assert whole == (True, epochs - PATIENCE)
    for epoch in range(epochs):
        # In four epochs each front end goes on after itself and after the other one.
        killed, resumed = FRONT_ENDS[epoch % 2], FRONT_ENDS[epoch // 2 % 2]
        kill_at_report(killed, "parts", epoch + 1, *extra)
        steps = [int(path.stem.removeprefix("step-")) for path in Path("parts").glob("*.ckpt")]
        assert max(steps, default=0) == 3 * epoch + saved
        parts = finish(resumed, "parts", epoch + 1)
    assert parts == whole
    assert log_of("parts") == log_of("whole")
    assert newest("parts").read_bytes() == newest("whole").read_bytes()
    assert Path("parts.best").read_bytes() == Path("whole.best").read_bytes()
