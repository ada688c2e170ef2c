"""The same plan trained on this machine and on emulated ARM processors.

An epoch of the data is one batch, so an epoch's loss in the log is the loss of one step.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts.emulate import ROOT, TARGETS, Target

pytestmark = pytest.mark.emulated

BATCH, STEPS = 16, 20
MODELS = [(t, m) for t in TARGETS for m in t.levels]
NAMES = [f"{t.name}-{m}" for t, m in MODELS]


class Run(NamedTuple):
    """What a training left behind."""

    level: str
    losses: tuple[float, ...]
    weights: bytes


@pytest.fixture(scope="session")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the plan of a small convolutional network."""
    path = tmp_path_factory.mktemp("emulated") / "digits.plan"
    command = [sys.executable, "-m", "armtrain", "plan", "zoo:digits_cnn", "-o", str(path)]
    options = ["--batch", str(BATCH), "--optimizer", "sgd:lr=0.02,momentum=0.9"]
    subprocess.run([*command, *options], cwd=ROOT, check=True, capture_output=True)
    return path


@cache
def program(target: Target | None) -> Path:
    """Return armtrain-run of a target (None: this machine), built."""
    if target is None:
        subprocess.run(["make", "--silent", "run"], cwd=ROOT, check=True)
        return ROOT / "build" / "armtrain-run"
    if missing := target.missing():
        pytest.skip("; ".join(missing))
    target.make("run")
    return target.build / "armtrain-run"


@cache
def train(plan: Path, target: Target | None, model: str, threads: int = 2) -> Run:
    """Train STEPS steps and return the losses and weights."""
    name = f"{target.name if target else 'here'}-{model}-{threads}"
    log, weights = plan.parent / f"{name}.jsonl", plan.parent / f"{name}.safetensors"
    command = [str(program(target))]
    if target is not None:
        command = target.command(model, program(target))
    data = ["--data", f"random:samples={BATCH},seed=3", "--epochs", str(STEPS), "--seed", "1"]
    output = ["--log", str(log), "--save", str(weights), "--threads", str(threads)]
    done = subprocess.run(
        [*command, str(plan), *data, *output], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    losses = tuple(line["train_loss"] for line in lines)
    assert len(losses) == STEPS
    return Run(lines[0]["kernel_level"], losses, weights.read_bytes())


@pytest.mark.parametrize(("target", "model"), MODELS, ids=NAMES)
def test_level_follows_the_processor(plan: Path, target: Target, model: str) -> None:
    """What the kernel reports about the processor decides, nothing else."""
    assert train(plan, target, model).level == target.levels[model]


@pytest.mark.parametrize(("target", "model"), MODELS, ids=NAMES)
def test_losses_agree_with_this_machine(plan: Path, target: Target, model: str) -> None:
    """Within 1e-5 at the first step and 1e-4 at the last, where rounding has added up."""
    here, there = train(plan, None, "any"), train(plan, target, model)
    assert there.losses[0] == pytest.approx(here.losses[0], rel=1e-5)
    assert there.losses[-1] == pytest.approx(here.losses[-1], rel=1e-4)
    assert here.losses[-1] < here.losses[0]


@pytest.mark.parametrize("target", TARGETS, ids=[t.name for t in TARGETS])
def test_processors_of_one_level_give_the_same_bits(plan: Path, target: Target) -> None:
    """The processor's model is not part of the numeric contract, its level is."""
    seen: dict[str, Run] = {}
    for model, level in target.levels.items():
        run = train(plan, target, model)
        assert run == seen.setdefault(level, run), model


@pytest.mark.parametrize(("target", "model"), MODELS, ids=NAMES)
def test_threads_do_not_change_bits(plan: Path, target: Target, model: str) -> None:
    """One thread and two give the same weights."""
    assert train(plan, target, model, 1) == train(plan, target, model)
