"""The optimiser cases of the ONNX operators' test suite, where its definitions are torch's.

The formulas are those of ai.onnx.preview.training, version 1. docs/optimizers.md says where the
definitions differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtrain.runtime.reference.call import Call, Outputs
from armtrain.runtime.reference.update import adagrad_step, adam_step, sgd_step

RATE = 0.1
ONE = {"x": [1.2, 2.8], "g": [-0.94, -2.5], "v": [1.7, 3.6], "h": [0.1, 0.1]}
FIRST = {"x": [1.0], "g": [-1.0], "v": [2.0], "h": [0.5]}
SECOND = {"x": [1.0, 2.0], "g": [-1.0, -3.0], "v": [4.0, 1.0], "h": [1.0, 10.0]}
# Case -> arrays of its tensors, coefficients.
ADAM: dict[str, tuple[list[dict[str, list[float]]], float, float, float]] = {
    "adam": ([ONE], 0.95, 0.1, 1e-7),
    "adam_multiple": ([FIRST, SECOND], 0.95, 0.85, 1e-2),
}
ADAGRAD: dict[str, list[dict[str, list[float]]]] = {
    "adagrad": [FIRST | {"h": [2.0]}],
    "adagrad_multiple": [FIRST | {"h": [2.0]}, SECOND | {"h": [4.0, 1.0]}],
}
MOMENTUM: dict[str, tuple[list[dict[str, list[float]]], float, float, bool]] = {
    "momentum": ([ONE], 0.001, 0.1, False),
    "momentum_multiple": ([FIRST, SECOND], 0.001, 0.85, False),
    "nesterov_momentum": ([ONE], 0.01, 1.0, True),
}


def call_of(tensors: dict[str, Any], step: int, **attrs: float) -> Call:
    """Return a step on arrays by operand name."""
    values = {name: np.array(value) for name, value in tensors.items()}
    return Call(values, {n: v.shape for n, v in values.items()}, {"lr": RATE, **attrs}, step=step)


def same(found: Outputs, expected: dict[str, Any]) -> None:
    """Compare by double precision."""
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-13, err_msg=name)


@pytest.mark.parametrize("name", ADAGRAD)
@pytest.mark.parametrize("t", [0, 3])
def test_adagrad(name: str, t: int) -> None:
    for case in ADAGRAD[name]:
        x, g, h = (np.array(case[key]) for key in "xgh")
        regular = 0.001 * x + g
        total = h + regular * regular
        expected = x - RATE / (1 + t * 0.1) * regular / (np.sqrt(total) + 1e-5)
        call = call_of({"w": x, "g": g, "sum": h}, t, lr_decay=0.1, weight_decay=0.001, eps=1e-5)
        same(adagrad_step(call), {"w": expected, "sum": total})


@pytest.mark.parametrize("name", MOMENTUM)
@pytest.mark.parametrize(("t", "start"), [(0, 0.0), (1, 1.0), (5, 1.0)])
def test_momentum(name: str, t: int, start: float) -> None:
    cases, norm, beta, nesterov = MOMENTUM[name]
    for case in cases:
        x, g, v = (np.array(case[key]) for key in "xgv")
        v = start * v
        regular = norm * x + g
        velocity = 0.95 * v + (beta if t > 0 else 1.0) * regular
        step = regular + 0.95 * velocity if nesterov else velocity
        attrs = {"momentum": 0.95, "dampening": 1.0 - beta, "weight_decay": norm}
        call = call_of({"w": x, "g": g, "momentum": v}, t, **attrs, nesterov=nesterov)
        same(sgd_step(call), {"w": x - RATE * step, "momentum": velocity})


@pytest.mark.parametrize("name", ADAM)
@pytest.mark.parametrize("t", [1, 4])
def test_adam(name: str, t: int) -> None:
    cases, alpha, beta, epsilon = ADAM[name]
    for case in cases:
        x, g, v, h = (np.array(case[key]) for key in "xgvh")
        regular = 0.001 * x + g
        first = alpha * v + (1 - alpha) * regular
        second = beta * h + (1 - beta) * regular * regular
        rate = RATE * np.sqrt(1 - beta**t) / (1 - alpha**t)
        expected = x - rate * first / (np.sqrt(second) + epsilon)
        attrs = {"beta1": alpha, "beta2": beta, "weight_decay": 0.001}
        call = call_of(
            {"w": x, "g": g, "m": v, "v": h}, t - 1, **attrs, eps=epsilon / np.sqrt(1 - beta**t)
        )
        same(adam_step(call), {"w": expected, "m": first, "v": second})
