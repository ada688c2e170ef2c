"""Trainings with a signal ignored, as `nohup` and a shell's `&` start them, and with none left."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

import armtrain as at
from armtrain import nn, optim

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "build" / "armtrain-run"
EVERY = 1999
"""Steps between two checkpoints: many, so that a step at which something happens is none."""
FRONTS = {"run": str(RUN), "python": f"{sys.executable} -m armtrain train"}


def _save_plan(folder: Path) -> None:
    """Write net.plan."""
    at.plan(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 5)),
        input_shape=(1, 8, 8),
        batch_size=8,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.01),
    ).save(folder / "net.plan")


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_ignored_signal_stops_nothing(
    tmp_path: Path, front: str, number: signal.Signals
) -> None:
    if not RUN.exists():
        pytest.skip("build/armtrain-run is not built")
    _save_plan(tmp_path)
    args = ["net.plan", "--data", "random:samples=8000", "--epochs", "2"]
    options = ["--checkpoint", "c", "--checkpoint-every", "100", "--save", "w"]
    shell = ["sh", "-c", f"trap '' {number.name[3:]}; exec {FRONTS[front]} \"$@\"", "sh"]
    with subprocess.Popen(
        [*shell, *args, *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        while process.poll() is None and not list(tmp_path.glob("c/step-*.ckpt")):
            time.sleep(0.001)
        process.send_signal(number)
        said = process.communicate(timeout=120)[0]
    assert process.returncode == 0, said
    assert "stopped" not in said
    subprocess.run([str(RUN), *args, "--save", "q", "--quiet"], cwd=tmp_path, check=True)
    assert (tmp_path / "w").read_bytes() == (tmp_path / "q").read_bytes()


@pytest.mark.parametrize("front", FRONTS)
def test_a_lost_terminal_leaves_a_checkpoint(tmp_path: Path, front: str) -> None:
    """What a dropped connection does to a training that runs in its shell."""
    if not RUN.exists():
        pytest.skip("build/armtrain-run is not built")
    _save_plan(tmp_path)
    args = ["net.plan", "--data", "random:samples=1000000000", "--epochs", "1"]
    options = ["--checkpoint", "c", "--checkpoint-every", f"{EVERY}"]
    command = [*FRONTS[front].split(), *args, *options]
    terminal, inside = pty.openpty()
    # As a serial console, this terminal does not know its width; something must be shown on it.
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        os.close(inside)
        assert select.select([terminal], [], [], 120)[0], "nothing is shown"
        while process.poll() is None and not list(tmp_path.glob("c/step-*.ckpt")):
            if select.select([terminal], [], [], 0.01)[0]:
                os.read(terminal, 4096)
        os.close(terminal)
        assert process.wait(timeout=120) in (-signal.SIGHUP, 128 + signal.SIGHUP)
    newest = max((tmp_path / "c").glob("step-*.ckpt"))
    assert int(newest.stem.removeprefix("step-")) % EVERY, "written because it had to stop"
