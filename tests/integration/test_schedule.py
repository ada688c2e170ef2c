"""Schedules change the steps as their factors say, alike in both front ends and after a resume."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.optim import lr_scheduler

RUN = Path(__file__).resolve().parents[2] / "build" / "armtrain-run"
DATA, EPOCHS = "random:samples=22,seed=3", 5
SCHEDULES = [
    "linear:total_iters=7,interval=step+step:step_size=2,gamma=0.5",
    "multistep:milestones=1/3,gamma=0.25",
    "cosine:T_max=4,eta_min_factor=0.1",
    "one_cycle:total_steps=14",
    "polynomial:total_iters=12,power=3,interval=step+constant+exponential:gamma=0.9",
]


def make_plan(**changes: object) -> at.Plan:
    """Return a small classifier's plan."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.Tanh(), nn.Linear(6, 3))
    options = {"optimizer": optim.AdamW(lr=0.1), "loss": nn.CrossEntropyLoss()} | changes
    return at.plan(net, input_shape=(3, 2, 2), batch_size=8, threads=1, **options)  # type: ignore[arg-type]


def trained(schedule: object, directory: Path, *epochs: int) -> bytes:
    """Return the weights after trainings that reach `epochs`, each in a new trainer."""
    for until in epochs:
        trainer = at.Trainer(make_plan())
        trainer.fit(DATA, until, schedule=schedule, checkpoint=directory / "c", resume=True,
                    progress=False)  # fmt: skip
    trainer.save(directory / "w.safetensors")
    return (directory / "w.safetensors").read_bytes()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_both_front_ends_and_a_resumed_run_give_the_same_bits(
    schedule: str, tmp_path: Path
) -> None:
    make_plan().save(tmp_path / "m.plan")
    whole, parts, plain = (tmp_path / name for name in ("whole", "parts", "plain"))
    for directory in (whole, parts, plain):
        directory.mkdir()
    expected = trained(schedule, whole, EPOCHS)
    assert trained(schedule, parts, 2, EPOCHS) == expected
    assert trained(None, plain, EPOCHS) != expected
    args = ["m.plan", "--data", DATA, "--epochs", str(EPOCHS), "--schedule", schedule]
    args += ["--save", "run.safetensors", "--checkpoint", "r", "--quiet"]
    subprocess.run([str(RUN), *args], cwd=tmp_path, check=True, timeout=120)
    assert (tmp_path / "run.safetensors").read_bytes() == expected
    last = sorted(os.listdir(whole / "c"))[-1]
    assert (tmp_path / "r" / last).read_bytes() == (whole / "c" / last).read_bytes()


@pytest.mark.parametrize("schedule", ["polynomial:total_iters=1", "cosine:T_max=1"])
def test_a_checkpoint_with_rates_of_0_is_resumed(schedule: str, tmp_path: Path) -> None:
    trainer = at.Trainer(make_plan())
    for epochs in (1, 2, 4):
        trainer.fit(DATA, epochs, schedule=schedule, checkpoint=tmp_path / "c", resume=True,
                    progress=False)  # fmt: skip
        trainer = at.Trainer(make_plan())
    history = trainer.fit(DATA, 5, schedule=schedule, checkpoint=tmp_path / "c", resume=True,
                          progress=False)  # fmt: skip
    assert [record.epoch for record in history] == [5]


def test_the_factor_is_of_the_epoch_or_the_step() -> None:
    net = nn.Linear(1, 1, bias=False)
    plan = at.plan(
        net, input_shape=(1,), batch_size=1, loss=nn.MSELoss(), optimizer=optim.SGD(lr=1.0)
    )
    trainer = at.Trainer(plan)
    x, y = np.ones((2, 1), np.float32), np.zeros((2, 1), np.float32)
    trainer.load_state_dict({"weight": np.ones((1, 1), np.float32)})
    # The gradient is 2 w; w -> w (1 - 2 factor), twice an epoch.
    schedule = [
        lr_scheduler.StepLR(step_size=1, gamma=0.5),
        lr_scheduler.MultiStepLR(milestones=[1], gamma=0.25, interval="step"),
    ]
    trainer.fit((x, y), 2, schedule=schedule, progress=False)
    expected = np.prod([1 - 2 * factor for factor in (1.0, 0.25, 0.125, 0.125)])
    assert trainer.state_dict()["weight"].item() == expected


def test_rates_that_a_schedule_has_left_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_plan().save(tmp_path / "m.plan")
    args = [str(RUN), "m.plan", "--data", DATA, "--checkpoint", "c"]
    first = [*args, "--epochs", "2", "--schedule", "exponential:gamma=0.5"]
    subprocess.run(first, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    again = [*args, "--epochs", "3", "--resume"]
    text = "no schedule is given, learning rates stay at 0.5 times the plan's"
    done = subprocess.run(again, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    assert text in done.stdout.decode()
    at.Trainer(make_plan()).fit(DATA, 4, checkpoint=tmp_path / "c", resume=True)
    assert text in capsys.readouterr().out


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("zigzag", "'zigzag' is unknown, available are constant, linear, step"),
        ("", "--schedule"),
        ("+", "names no schedule"),
        ("step", "step needs step_size=N"),
        ("multistep:gamma=0.5", "multistep needs milestones=N"),
        ("step:size=3", "'size' is not an option of step"),
        ("step:step_size", "'step_size' is no OPTION=VALUE"),
        ("step:step_size=1.5", "step's step_size needs a whole number from 1"),
        ("step:step_size=0x3", "step's step_size needs a whole number from 1"),
        ("exponential:gamma=nan", "gamma needs a number from 0 to 1, got 'nan'"),
        ("multistep:milestones=3;4", "milestones needs 1 to 16 whole numbers"),
        ("multistep:milestones=" + "/".join("1" * 17), "milestones needs 1 to 16 whole numbers"),
        ("linear:interval=batch", "interval needs epoch or step, got 'batch'"),
        ("plateau:interval=step", "interval needs epoch, got 'step'"),
        ("plateau:factor=1", "factor needs a number from 0 to 0.9999990463, got '1'"),
        ("plateau:patience=-1", "patience needs a whole number from 0 to 2147483646, got '-1'"),
        ("plateau:mode=max", "'mode' is not an option of plateau"),
        ("plateau+step:step_size=2+plateau", "only one of the schedules can be a plateau"),
        ("constant+constant+constant+constant+constant", "at most 4 schedules"),
        ("x" * 600, "it has 600 characters"),
    ],
)
def test_armtrain_run_refuses(schedule: str, message: str) -> None:
    args = [str(RUN), "m.plan", "--data", DATA, "--epochs", "1", f"--schedule={schedule}"]
    done = subprocess.run(args, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
