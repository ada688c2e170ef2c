"""Schedules: texts, refusals, and what they take from torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

import pytest

from armtrain.optim import lr_scheduler
from armtrain.optim.lr_scheduler import LRScheduler, check_schedule, parse_schedule

KINDS = [getattr(lr_scheduler, n) for n in lr_scheduler.__all__ if n.endswith("LR")]


def test_texts_are_schedules() -> None:
    warm = lr_scheduler.LinearLR(total_iters=100, interval="step")
    down = lr_scheduler.MultiStepLR(milestones=[10, 20], gamma=0.5)
    text = "linear:total_iters=100,interval=step+multistep:milestones=10/20,gamma=0.5"
    assert parse_schedule(text) == (warm, down)
    assert check_schedule([warm, down]) == (warm, down)
    assert check_schedule(text) == (warm, down)
    assert check_schedule(warm) == (warm,)
    assert check_schedule(None) == ()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_names_and_defaults_are_torchs(kind: type[LRScheduler]) -> None:
    torch = pytest.importorskip("torch", reason="compares with torch where it is installed")
    theirs = inspect.signature(getattr(torch.optim.lr_scheduler, kind.__name__)).parameters
    for field in fields(kind):
        if field.name in ("interval", "eta_min_factor"):
            continue
        default = theirs[field.name].default
        known = MISSING if default in (inspect.Parameter.empty, None) else default
        assert field.default == known, field.name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: parse_schedule("zigzag"), "'zigzag' is unknown, available are constant, linear"),
        (lambda: parse_schedule(""), "'' is unknown"),
        (lambda: parse_schedule("step"), "step needs step_size=N"),
        (lambda: parse_schedule("multistep"), "multistep needs milestones=N"),
        (lambda: parse_schedule("step:size=3"), "not an option of step"),
        (lambda: parse_schedule("step:step_size=3,step_size=3"), "given twice"),
        (lambda: parse_schedule("step:step_size=1.5"), "'1.5' is no value of step_size"),
        (lambda: parse_schedule("multistep:milestones=3;4"), "is no value of milestones"),
        (lambda: parse_schedule("step:step_size=0"), "step_size needs an integer from 1"),
        (lambda: parse_schedule("exponential:gamma=-1"), "gamma needs a finite number from 0"),
        (lambda: parse_schedule("exponential:gamma=nan"), "gamma needs a finite number"),
        (lambda: parse_schedule("linear:interval=batch"), "interval needs 'epoch' or 'step'"),
        (lambda: parse_schedule("+".join(["constant"] * 5)), "1 to 4 schedules, got 5"),
        (lambda: check_schedule(3), "schedule needs a text as 'cosine:T_max=10'"),
        (lambda: check_schedule(()), "1 to 4 schedules, got 0"),
        (lambda: lr_scheduler.MultiStepLR(milestones=range(1, 30)), "needs 1 to 16 integers"),
        (lambda: lr_scheduler.MultiStepLR(milestones="12"), "needs 1 to 16 integers"),  # type: ignore[arg-type]
        (lambda: lr_scheduler.PolynomialLR(power=0.5), "power needs an integer"),  # type: ignore[arg-type]
    ],
)
def test_refusals(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
