"""Lifetimes: from declared reads and writes, per storage, on one axis over all phases."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from armtrain.errors import PlanError
from armtrain.ir.ops import OpCode
from armtrain.ir.program import PERSISTENT_ROLES, Phase, Program, Role
from armtrain.schedule.lifetime import Lifetime, lifetimes_of
from tests.plans import ProgramBuilder, linear_regression, mlp_classifier
from tests.strategies import programs


def by_name(program: Program) -> dict[str, Lifetime]:
    """Return every tensor's lifetime by name."""
    items = lifetimes_of(program).items
    return {program.tensors[t].name: item for item in items for t in item.tensors}


def test_linear_regression_by_hand() -> None:
    # 0 forward, 1 loss, 2 gradient, 3 and 4 updates; 5, 6 evaluate; 7 predict
    items = by_name(linear_regression())
    expected = {
        "0.weight": (0, 8),
        "input": (0, 3),
        "target": (0, 2),
        "0.y": (0, 3),
        "loss": (1, 5),
        "0.weight.grad": (2, 4),
        "0.bias.grad": (2, 5),
        "evaluate/target": (5, 7),
        "evaluate/loss": (6, 7),
        "predict/0.y": (7, 8),
    }
    assert {n: (items[n].first, items[n].last) for n in expected} == expected


def test_a_storage_lives_for_all_its_tensors() -> None:
    items = by_name(mlp_classifier())
    assert items["0.y"] is items["1.y"]
    assert items["2.y"] is items["dlogits"]


@given(programs())
def test_every_use_lies_in_the_lifetime(program: Program) -> None:
    lifetimes = lifetimes_of(program)
    place = {t: item for item in lifetimes.items for t in item.tensors}
    for index, step in enumerate(program.steps):
        for operand in step.operands:
            if operand is not None:
                assert place[operand].first <= index < place[operand].last
    for tensor in program.tensors:
        if tensor.role in PERSISTENT_ROLES:
            item = place[tensor.id]
            assert (item.first, item.last) == (0, len(program.steps))


def test_a_weight_gradient_dies_when_it_is_applied() -> None:
    program = mlp_classifier((8, 16, 3))
    item = by_name(program)["2.weight.grad"]
    last = program.steps[item.last - 1]
    assert (last.op, last.kind) == (OpCode.SGD_STEP, "AG")


def test_the_largest_tensor_names_the_storage() -> None:
    b = ProgramBuilder(1)
    x = b.tensor("x", Role.INPUT, (1, 4), batched=True)
    y = b.tensor("y", Role.ACTIVATION, (1, 4), batched=True)
    b.step(OpCode.COPY, "copy", "F", x=x, y=y)
    z = b.tensor("z", Role.DERIVATIVE, (1, 4), batched=True, same_as=y)
    b.step(OpCode.RELU_FWD, "relu", "F", x=y, y=z)
    items = lifetimes_of(b.program("m", "mse", "sgd", (4,))).items
    assert [(i.role, i.nbytes, i.aligned_bytes) for i in items[1:]] == [(Role.ACTIVATION, 16, 64)]


def test_an_unused_tensor_is_refused_by_name() -> None:
    b = ProgramBuilder(1)
    b.tensor("left over", Role.ACTIVATION, (4,))
    x = b.tensor("x", Role.INPUT, (1, 4), batched=True)
    b.step(OpCode.COPY, "copy", "F", x=x, y=b.tensor("y", Role.OUTPUT, (1, 4), batched=True))
    with pytest.raises(PlanError, match="left over"):
        lifetimes_of(b.program("m", "mse", "sgd", (4,)))


def test_mixed_phases_are_refused() -> None:
    program = linear_regression()
    steps = list(program.steps)
    steps[0] = replace(steps[0], phase=Phase.PREDICT)
    with pytest.raises(PlanError, match="PREDICT"):
        lifetimes_of(replace(program, steps=tuple(steps)))


def test_the_dump_has_a_line_per_storage() -> None:
    program = mlp_classifier()
    lifetimes = lifetimes_of(program)
    text = lifetimes.dump(program)
    assert text.count("\n") == len(lifetimes.items) + 1
    assert "0.y = 1.y" in text
