"""The engine over the case table: against the reference, and against itself bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtrain.errors import ShapeError
from armtrain.ir.program import PERSISTENT_ROLES, Phase, Role
from armtrain.planfile.plan import Plan
from armtrain.runtime.engine import engine_module
from armtrain.runtime.reference import ReferenceExecutor
from tests.ops.cases import CASES, Case, batch, make_plan
from tests.ops.stepwise import MAY_FUSE, Stepper, open_engine

WARM_UP = 2
LEVELS = engine_module().kernel_levels()


def batch_sizes(case: Case) -> list[int]:
    """Return the planned batch and the smallest."""
    return sorted({case.batch_size, case.smallest})


def trained(engine: Any, case: Case, steps: int = 3) -> list[float]:
    """Train a few steps with batches of changing size and return the losses."""
    sizes = [case.batch_size, case.smallest, case.batch_size]
    losses = []
    for seed in range(steps):
        n = sizes[seed % len(sizes)]
        losses.append(engine.train_step(*batch(case, n, seed), n))
    return losses


def persistent(plan: Plan, engine: Any) -> bytes:
    """Return the bytes of all weights, buffers and optimiser state."""
    stepper = Stepper(plan, engine, 1)
    kept = PERSISTENT_ROLES - {Role.STACK}
    return b"".join(
        t.name.encode() + stepper.peek(t).tobytes() for t in plan.program.tensors if t.role in kept
    )


def fed(plan: Plan, engine: Any, phase: Phase, case: Case, n: int) -> Stepper:
    """Return a stepper whose phase has a batch of n samples."""
    stepper = Stepper(plan, engine, n)
    x, target = batch(case, n, seed=7)
    stepper.feed(phase, Role.INPUT, x)
    stepper.feed(phase, Role.TARGET, target)
    return stepper


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CASES)
def test_every_step_agrees_with_the_reference(name: str, level: str) -> None:
    case = CASES[name]
    plan = make_plan(case)
    for n in batch_sizes(case):
        for warm_up in (0, WARM_UP):
            engine = open_engine(plan, kernel_level=level)
            trained(engine, case, warm_up)
            for phase in Phase:
                stepper = fed(plan, engine, phase, case, n)
                for record in stepper.run(phase):
                    stepper.check(record)


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("name", CASES)
def test_levels_agree(name: str, level: str) -> None:
    """Element-wise operations and reductions have the same bits on every level."""
    case = CASES[name]
    plan = make_plan(case)
    plain = fed(plan, open_engine(plan, kernel_level=LEVELS[0]), Phase.TRAIN, case, case.batch_size)
    other = Stepper(plan, open_engine(plan, kernel_level=level), case.batch_size)
    for record in plain.run(Phase.TRAIN):
        again = other.replay(record)
        if record.step.op not in MAY_FUSE:
            for operand, values in record.written.items():
                same = values.tobytes() == again.written[operand].tobytes()
                assert same, f"{record.step.op.name} of {record.step.layer}: {operand}"


@pytest.mark.parametrize("name", CASES)
def test_threads_and_poison_do_not_change_a_bit(name: str) -> None:
    case = CASES[name]
    plan = make_plan(case, threads=4)
    options: list[dict[str, Any]] = [{"threads": k} for k in (1, 2, 4)]
    options += [{"threads": 1, "poison": True}, {"threads": 4, "poison": True}]
    results = []
    for option in options:
        engine = open_engine(plan, **option)
        results.append((trained(engine, case), persistent(plan, engine)))
    assert all(np.isfinite(results[0][0]))
    for option, result in zip(options, results, strict=True):
        assert result == results[0], option


@pytest.mark.parametrize("name", CASES)
def test_initial_weights_are_those_of_the_reference(name: str) -> None:
    plan = make_plan(CASES[name])
    engine = open_engine(plan)
    executor = ReferenceExecutor(plan, seed=1)
    for tensor in plan.program.tensors:
        if tensor.role in (Role.WEIGHT, Role.FROZEN, Role.BUFFER):
            got = np.empty(tensor.layout.shape, np.float32)
            engine.read(tensor.name, got)
            assert np.array_equal(got, executor.read(tensor.name).astype(np.float32))


@pytest.mark.parametrize("name", CASES)
def test_layouts_of_batches_and_results(name: str) -> None:
    """Whole phases from and to the user's arrays; rounding is checked step by step elsewhere."""
    case = CASES[name]
    plan = make_plan(case)
    for n in batch_sizes(case):
        engine, executor = open_engine(plan), ReferenceExecutor(plan, seed=1)
        x, target = batch(case, n)
        out = np.empty((n, *executor.predict_step(x).shape[1:]), np.float32)
        engine.predict_step(x, n, out)
        np.testing.assert_allclose(out, executor.predict_step(x), rtol=1e-3, atol=1e-4)
        loss, right = engine.evaluate_step(x, target, n)
        assert (pytest.approx(loss, rel=1e-4), right) == executor.evaluate_step(x, target)
        assert engine.train_step(x, target, n) == pytest.approx(
            executor.train_step(x, target), rel=1e-4
        )


@pytest.mark.parametrize("name", CASES)
def test_it_trained(name: str) -> None:
    """Every trained tensor has changed, every frozen one has not."""
    case = CASES[name]
    plan = make_plan(case)
    engine = open_engine(plan)
    tensors = [t for t in plan.program.tensors if t.role in (Role.WEIGHT, Role.FROZEN)]
    stepper = Stepper(plan, engine, 1)
    before = {t.name: stepper.peek(t) for t in tensors}
    trained(engine, case)
    for tensor in tensors:
        changed = not np.array_equal(before[tensor.name], stepper.peek(tensor))
        assert changed == (tensor.role == Role.WEIGHT), tensor.name


def test_one_value_per_channel_is_refused() -> None:
    case = CASES["batchnorm_one_place"]
    engine = open_engine(make_plan(case))
    with pytest.raises(ShapeError, match="1"):
        engine.train_step(*batch(case, 1), 1)


def test_a_larger_batch_is_refused() -> None:
    case = CASES["mse"]
    engine = open_engine(make_plan(case))
    n = case.batch_size + 1
    with pytest.raises(ShapeError, match=str(case.batch_size)):
        engine.train_step(*batch(case, n), n)
