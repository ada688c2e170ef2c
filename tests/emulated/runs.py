"""One training run, whatever ran it: what it logged and the weights that it saved."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

BATCH, STEPS = 16, 20


class Run(NamedTuple):
    """What a training left behind."""

    level: str
    losses: tuple[float, ...]
    weights: bytes


def output_of(command: Sequence[str], **environment: str) -> str:
    """Run a command that must succeed, where no package can be imported by chance."""
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            command,
            cwd=elsewhere,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_training(
    command: Sequence[str], name: str, plan: Path, threads: int, **environment: str
) -> Run:
    """Train STEPS steps with a front end's command; an epoch of the data is one batch.

    So an epoch's loss in the log is the loss of one step.
    """
    log, weights = plan.parent / f"{name}.jsonl", plan.parent / f"{name}.safetensors"
    data = ["--data", f"random:samples={BATCH},seed=3", "--epochs", str(STEPS), "--seed", "1"]
    output = ["--log", str(log), "--save", str(weights), "--threads", str(threads)]
    output_of([*command, str(plan), *data, *output], **environment)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    losses = tuple(line["train_loss"] for line in lines)
    assert len(losses) == STEPS
    return Run(lines[0]["kernel_level"], losses, weights.read_bytes())
