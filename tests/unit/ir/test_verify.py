"""Program verifier: every kind of damage is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from armtrain import nn, optim
from armtrain.errors import PlanError
from armtrain.ir.ops import OpCode, spec_of
from armtrain.ir.program import Phase, Program, Role, Step, StorageId, Tensor, TensorId
from armtrain.ir.verify import verify_program
from armtrain.passes.pipeline import compile_program


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(2, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.b = nn.Conv2d(4, 4, 3, padding=1)
        self.fc = nn.Linear(64, 3)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        x = self.bn(self.a(x)).relu()
        return self.fc((self.b(x) + x).relu().flatten(1))


def good() -> Program:
    net = Net()
    net.a.requires_grad_(False)
    return compile_program(
        net,
        input_shape=(2, 4, 4),
        batch_size=4,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.1, momentum=0.9),
        clip_norm=1.0,
        threads=2,
    )


def find(program: Program, op: OpCode, layer: str = "", phase: Phase = Phase.TRAIN) -> int:
    return next(
        i
        for i, s in enumerate(program.steps)
        if s.op == op and s.phase == phase and s.layer.startswith(layer)
    )


def named(program: Program, name: str) -> Tensor:
    return next(t for t in program.tensors if t.name == name)


def with_step(program: Program, index: int, step: Step | None) -> Program:
    steps = list(program.steps)
    steps[index : index + 1] = [] if step is None else [step]
    return replace(program, steps=tuple(steps))


def with_operand(program: Program, index: int, slot: str, name: str | None) -> Program:
    step = program.steps[index]
    operands = list(step.operands)
    place = spec_of(step.op).operand_index[slot]
    operands[place] = None if name is None else named(program, name).id
    return with_step(program, index, replace(step, operands=tuple(operands)))


def with_tensor(program: Program, name: str, **changes: object) -> Program:
    tensors = list(program.tensors)
    tensor = named(program, name)
    tensors[tensor.id] = replace(tensor, **changes)  # type: ignore[arg-type]
    return replace(program, tensors=tuple(tensors))


def swapped(program: Program, a: int, b: int) -> Program:
    steps = list(program.steps)
    steps[a], steps[b] = steps[b], steps[a]
    return replace(program, steps=tuple(steps))


def test_good_program_passes() -> None:
    verify_program(good())


def lost_update(p: Program) -> Program:
    return with_step(p, find(p, OpCode.SGD_STEP, "fc"), None)


def double_update(p: Program) -> Program:
    index = find(p, OpCode.SGD_STEP, "fc")
    return replace(p, steps=(*p.steps[:index], p.steps[index], *p.steps[index:]))


def update_of_frozen(p: Program) -> Program:
    index = find(p, OpCode.SGD_STEP, "b")
    return with_operand(p, index, "w", "a.weight")


def early_update(p: Program) -> Program:
    update, derivative = find(p, OpCode.SGD_STEP, "b"), find(p, OpCode.CONV2D_GRAD_X, "b")
    step = replace(p.steps[update], operands=(*p.steps[update].operands[:3], None))
    steps = [s for i, s in enumerate(p.steps) if i != update]
    return replace(p, steps=(*steps[:derivative], step, *steps[derivative:]))


def read_before_write(p: Program) -> Program:
    return swapped(p, find(p, OpCode.CONV2D_FWD, "a"), find(p, OpCode.BATCHNORM2D_FWD))


def in_place_with_later_reader(p: Program) -> Program:
    # The sum would overwrite x, which the weight gradient of 'b' still reads.
    return with_tensor(p, "add.out", storage=named(p, "relu.out").storage)


def undeclared_pair(p: Program) -> Program:
    return with_tensor(p, "b.out", storage=named(p, "relu.out").storage)


def shared_weight_storage(p: Program) -> Program:
    return with_tensor(p, "b.out", storage=named(p, "b.weight").storage)


def lost_norm(p: Program) -> Program:
    return with_step(p, find(p, OpCode.GRAD_SUMSQ), None)


def norm_twice(p: Program) -> Program:
    first = find(p, OpCode.GRAD_SUMSQ)
    second = first + 1 + find(replace(p, steps=p.steps[first + 1 :]), OpCode.GRAD_SUMSQ)
    return with_step(p, second, replace(p.steps[second], attrs=p.steps[first].attrs))


def missing_operand(p: Program) -> Program:
    return with_operand(p, find(p, OpCode.LINEAR_FWD), "w", None)


def update_in_evaluation(p: Program) -> Program:
    moved = replace(p.steps[find(p, OpCode.SGD_STEP, "fc")], phase=Phase.EVALUATE)
    first = next(i for i, s in enumerate(p.steps) if s.phase == Phase.EVALUATE)
    return replace(p, steps=(*p.steps[:first], moved, *p.steps[first:]))


def phases_mixed(p: Program) -> Program:
    return swapped(p, find(p, OpCode.CONV2D_FWD), len(p.steps) - 1)


def wrong_layout(p: Program) -> Program:
    layout = replace(named(p, "x").layout, perm=(0, 2, 2, 1))
    return with_tensor(p, "x", layout=layout)


def unused_tensor(p: Program) -> Program:
    number = len(p.tensors)
    extra = replace(
        named(p, "b.out"), id=TensorId(number), name="nobody", storage=StorageId(number)
    )
    return replace(p, tensors=(*p.tensors, extra))


def integer_attribute(p: Program) -> Program:
    index = find(p, OpCode.SGD_STEP)
    step = p.steps[index]
    return with_step(p, index, replace(step, attrs=(1, *step.attrs[1:])))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lost_update, "'fc.weight(/momentum)?' is never updated"),
        (double_update, "updates 'fc.weight' again"),
        (update_of_frozen, r"writes 'a.weight' \(frozen\)"),
        (early_update, "'b.weight' is read after its update"),
        (read_before_write, "reads 'a.out' before anything wrote it"),
        (in_place_with_later_reader, "which 'add.out' has overwritten"),
        (undeclared_pair, "'b.out' and 'relu.out' must not share"),
        (shared_weight_storage, "shares its storage"),
        (lost_norm, "with 1 slots unfilled"),
        (norm_twice, "twice or not there"),
        (missing_operand, "lacks 'w'"),
        (update_in_evaluation, "overwrites the persistent 'fc.weight'"),
        (phases_mixed, "not in order"),
        (wrong_layout, "permutes 4 axes"),
        (unused_tensor, "'nobody' is used by phases none"),
        (integer_attribute, "attribute 'lr' is 1"),
    ],
)
def test_damage_is_found(damage: Callable[[Program], Program], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        verify_program(damage(good()))


def test_every_role_of_the_program_is_as_expected() -> None:
    roles = {t.name: t.role for t in good().tensors}
    assert roles["a.weight"] == Role.FROZEN
    assert roles["b.weight"] == Role.WEIGHT
    assert roles["bn.running_var"] == Role.BUFFER
    assert roles["b.weight/momentum"] == Role.STATE
    assert roles["thread_stacks"] == Role.STACK
    assert roles["predict:output"] == Role.OUTPUT
