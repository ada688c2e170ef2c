"""Trainings that are started with a signal ignored, as `nohup` and a shell's `&` do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import armtrain as at
from armtrain import nn, optim

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "build" / "armtrain-run"
FRONTS = {"run": str(RUN), "python": f"{sys.executable} -m armtrain train"}


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_ignored_signal_stops_nothing(
    tmp_path: Path, front: str, number: signal.Signals
) -> None:
    if not RUN.exists():
        pytest.skip("build/armtrain-run is not built")
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    at.plan(
        network,
        input_shape=(1, 8, 8),
        batch_size=8,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.01),
    ).save(tmp_path / "net.plan")
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
