"""Gradients under the plan against central differences, in double.

The reference executor runs the plan's own steps on the plan's own addresses, so this checks
autodiff, in-place decisions, lifetimes and addresses together: a buffer that is overwritten too
early gives a wrong gradient or NaN.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from armtrain.ir.ops import OpCode
from armtrain.ir.program import Program, Role
from armtrain.runtime.reference import ReferenceExecutor
from tests.ops.cases import CASES, Case, batch, make_plan

H = 1e-5
# Truncation h^2 f'''/6 and cancellation 1e-16/h, both about 1e-10, with room for large f'''.
TOLERANCE = 1e-7
DIRECTIONS = 3


def slope(executor: ReferenceExecutor, name: str, direction: np.ndarray, data: tuple) -> float:
    """Return the central difference of the loss along `direction` of one parameter."""
    weights = executor.read(name)
    losses = []
    for sign in (1.0, -1.0):
        executor.write(name, weights + sign * H * direction)
        losses.append(executor.loss(*data))
    executor.write(name, weights)
    return (losses[0] - losses[1]) / (2 * H)


def batch_sizes(case: Case) -> list[int]:
    """Return the planned batch, one less, and the smallest."""
    sizes = {case.batch_size, case.batch_size - 1, case.smallest}
    return sorted(n for n in sizes if n >= case.smallest)


def trained_names(executor_plan: object) -> set[str]:
    """Return the names of trained tensors."""
    tensors = executor_plan.program.tensors  # type: ignore[attr-defined]
    return {t.name for t in tensors if t.role == Role.WEIGHT}


@cache
def program_of(name: str) -> Program:
    """Return the steps and tensors of a case."""
    return make_plan(CASES[name]).program


@pytest.mark.parametrize("name", CASES)
def test_gradient(name: str) -> None:
    check_gradients(CASES[name])


def check_gradients(case: Case) -> None:
    """Compare all gradients of a case with differences of its loss."""
    # A value that is clipped is no derivative.
    case = replace(case, clip_value=None)
    plan = make_plan(case)
    executor = ReferenceExecutor(plan, seed=1)
    generator = np.random.default_rng(2)
    for n in batch_sizes(case):
        data = batch(case, n)
        start = executor.snapshot()
        executor.train_step(*data)
        gradients = executor.gradients
        assert set(gradients) == trained_names(plan)
        executor.restore(start)
        for tensor, gradient in gradients.items():
            assert np.any(gradient != 0.0), f"{tensor}: the whole gradient is zero"
            for _ in range(DIRECTIONS):
                direction = generator.normal(size=gradient.shape)
                expected = slope(executor, tensor, direction, data)
                size = np.abs(gradient * direction).sum() + 1.0
                assert abs((gradient * direction).sum() - expected) <= TOLERANCE * size, (tensor, n)


@pytest.mark.parametrize("name", CASES)
def test_frozen_parameters_cost_nothing(name: str) -> None:
    """No gradient, no state, and no change of what is not trained."""
    case = CASES[name]
    plan = make_plan(case)
    frozen = {t.name for t in plan.program.tensors if t.role == Role.FROZEN}
    assert frozen == set(case.frozen)
    executor = ReferenceExecutor(plan, seed=1)
    before = {t: executor.read(t) for t in frozen | trained_names(plan)}
    executor.train_step(*batch(case, case.batch_size))
    for tensor, values in before.items():
        assert np.array_equal(values, executor.read(tensor)) == (tensor in frozen), tensor


def test_every_operation_is_used() -> None:
    """The table of cases covers the catalogue but COPY, which has a plan of its own."""
    used = {step.op for name in CASES for step in program_of(name).steps}
    unused = set(OpCode) - used
    assert unused == {OpCode.COPY}
