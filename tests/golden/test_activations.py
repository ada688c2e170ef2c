"""Activations and their gradients against stored ones of PyTorch in double, point by point."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.ir.ops import spec_of
from armtrain.ir.program import Phase, Step
from armtrain.runtime.reference.call import Call
from armtrain.runtime.reference.table import FUNCTIONS
from tests.golden.activations import ACTIVATIONS, POINTS, UPSTREAM, make_activation
from tests.ops.stepwise import Record, Stepper, open_engine
from tests.tolerances import bounds

STORED = json.loads((Path(__file__).parent / "activations.json").read_text())
FINITE, INFINITE = np.isfinite(POINTS), np.isinf(POINTS)
# Roundings of PyTorch's double, which forms some small values as differences of large ones.
OWN = 2.0**-50 * (1 + np.abs(POINTS[FINITE]))
CLOSE = {"rtol": 2.0**-22, "atol": 0.0}


def stepper_of(name: str) -> tuple[Stepper, list[tuple[int, Step]]]:
    """Return an engine and the two steps of an activation of as many features as points."""
    count = len(POINTS)
    net = nn.Sequential(nn.Linear(2, count), make_activation(nn, name), nn.Linear(count, 2))
    plan = at.plan(
        net, input_shape=(2,), batch_size=1, loss=nn.MSELoss(), optimizer=optim.SGD(lr=0.1)
    )
    steps = [(i, plan.program.steps[i]) for i in plan.phase_steps(Phase.TRAIN)]
    return Stepper(plan, open_engine(plan), 1), [pair for pair in steps if pair[1].layer == "1"]


def run(stepper: Stepper, index: int, step: Step, **read: np.ndarray) -> np.ndarray:
    """Return the one result of a step."""
    rows = {name: np.float32(values).reshape(1, -1) for name, values in read.items()}
    (result,) = stepper.replay(Record(index, step, rows, {})).written.values()
    return result.ravel().astype(np.float64)


def call_of(step: Step, **values: np.ndarray) -> Call:
    """Return the reference's view of a step on finite points."""
    names = [spec.name for spec in spec_of(step.op).attrs]
    return Call(values, {}, dict(zip(names, step.attrs, strict=True)))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_and_gradients_are_those_of_torch(name: str) -> None:
    stepper, ((first, forward), (second, gradient)) = stepper_of(name)
    y = run(stepper, first, forward, x=POINTS)
    expected = np.array(STORED[name]["y"])
    call = call_of(forward, x=POINTS[FINITE])
    d_y = bounds(forward.op, call, FUNCTIONS[forward.op](call))["y"]
    assert (np.abs(y[FINITE] - expected[FINITE]) <= d_y + OWN).all()
    np.testing.assert_allclose(y[~FINITE], expected[~FINITE], **CLOSE)

    reads_y = "y" in {slot.name for slot in spec_of(gradient.op).operands}
    kept = {"y": y} if reads_y else {"x": POINTS}
    dy = np.full(len(POINTS), UPSTREAM)
    dx = run(stepper, second, gradient, dy=dy, **kept)
    call = call_of(gradient, dy=dy[FINITE], **{n: v[FINITE] for n, v in kept.items()})
    exact = FUNCTIONS[gradient.op](call)
    allowed = bounds(gradient.op, call, exact)["dx"]
    if reads_y:  # and y is off by its own bound
        for sign in (-1.0, 1.0):
            moved = replace(call, values=call.values | {"y": y[FINITE] + sign * d_y})
            allowed = allowed + np.abs(FUNCTIONS[gradient.op](moved)["dx"] - exact["dx"])
    expected = np.array(STORED[name]["dx"])
    assert (np.abs(dx[FINITE] - expected[FINITE]) <= allowed + OWN).all()
    # Not at NaN, where PyTorch's own gradient depends on the length of the tensor.
    np.testing.assert_allclose(dx[INFINITE], expected[INFINITE], **CLOSE)


def test_all_points_are_stored() -> None:
    assert {n: len(v) for values in STORED.values() for n, v in values.items()} == {
        "y": len(POINTS),
        "dx": len(POINTS),
    }
    assert set(STORED) == set(ACTIVATIONS)
