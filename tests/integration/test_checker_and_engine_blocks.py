"""Updates by blocks that a plan file lies about: checker and engine name each."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.ir.ops import OPS, UPDATE_OF, OpCode
from armtrain.ir.program import Phase, Role
from armtrain.planfile.check import findings
from armtrain.runtime.engine import engine_module
from tests.plan_edit import Edit, get_field, sign

SGD, ADAM = OpCode.BLOCKS_SGD_STEP, OpCode.BLOCKS_ADAM_STEP


def plan_of(optimizer: optim.Optimizer) -> bytes:
    """Return the plan of a convolution and two equal layers that are updated by blocks."""
    net = nn.Sequential(
        *(nn.Conv2d(24, 320, 3), nn.Flatten(), nn.Tanh()),
        *(nn.Linear(320, 320), nn.Linear(320, 320), nn.Linear(320, 2)),
    )
    return at.plan(
        net,
        input_shape=(24, 3, 3),
        batch_size=3,
        loss=nn.MSELoss(),
        optimizer=optimizer,
        clip_value=0.1,
        threads=1,
    ).to_bytes()


def last(e: Edit, op: OpCode) -> int:
    """Return the last step by blocks, which is the convolution's."""
    return e.step(op, Phase.TRAIN, -1)


def resize(e: Edit, name: str, rows: int, columns: int) -> None:
    """Change the dimensions of a gradient, and all that follows from them in its record."""
    for what in ("dims", "shape", "view"):
        e.set(name, what, rows, 0)
        e.set(name, what, columns, 1)
    e.set(name, "bytes", 4 * rows * columns)


def more_rows_than_the_weight(e: Edit) -> None:
    resize(e, "0.weight.grad", 217, 320)
    e.set("0.weight.grad", "offset", 0)  # where it lies is found later


def rows_of_other_columns(e: Edit) -> None:
    resize(e, "0.weight.grad", 16, 319)


def a_gradient_that_is_none(e: Edit) -> None:
    e.set("0.weight.grad", "role", Role.DERIVATIVE)


def the_gradient_of_another_layer(e: Edit) -> None:
    e.operand(last(e, SGD), "g", "3.weight.grad")


def the_state_of_another_layer(e: Edit) -> None:
    step = e.step(ADAM, Phase.TRAIN, 0)
    e.operand(step, "m", "3.weight/exp_avg")


def the_weight_of_another_layer(e: Edit) -> None:
    e.operand(e.step(SGD, Phase.TRAIN, 0), "w", "3.weight")


def a_frozen_weight(e: Edit) -> None:
    e.set("3.weight", "role", Role.FROZEN)


def an_input_of_another_size(e: Edit) -> None:
    e.operand(e.step(SGD, Phase.TRAIN, 0), "x", "x")


def a_stride_that_gives_other_images(e: Edit) -> None:
    e.integer(last(e, SGD), "pad_h", 1)


def groups_that_split_no_channels(e: Edit) -> None:
    e.integer(last(e, SGD), "groups", 7)


def an_infinite_limit(e: Edit) -> None:
    real(e, last(e, SGD), "limit", float("inf"))


def momentum_without_a_buffer(e: Edit) -> None:
    real(e, last(e, SGD), "momentum", 0.5)


def too_little_workspace(e: Edit) -> None:
    e.set("0.blocks_sgd_step.ws", "dims", 64)
    e.set("0.blocks_sgd_step.ws", "shape", 64)
    e.set("0.blocks_sgd_step.ws", "view", 64)
    e.set("0.blocks_sgd_step.ws", "bytes", 64)


def real(e: Edit, step: int, attr: str, value: float) -> None:
    """Change a number of a step."""
    spec = OPS[OpCode(get_field(e.content, "steps", step, "op"))]
    index = get_field(e.content, "steps", step, "attrs") + spec.attr_index[attr]
    place = get_field(e.content, "header", 0, "attrs_offset") + 8 * index
    e.content = sign(e.content[:place] + struct.pack("<d", value) + e.content[place + 8 :])


LIES: list[tuple[Callable[[Edit], None], str, str]] = [
    (more_rows_than_the_weight, "g '0.weight.grad' has ", "g has 217 rows, the weight has 216"),
    (rows_of_other_columns, "g '0.weight.grad' has ", "g has dimension 1 = 319, needs 320"),
    (a_gradient_that_is_none, "g '0.weight.grad' has role DERIVATIVE", "'0.weight.grad', has role"),
    (
        the_gradient_of_another_layer,
        "g '3.weight.grad' is not '0.weight.grad'",
        "uses '3.weight.grad'",
    ),
    (the_state_of_another_layer, "m '3.weight/exp_avg' is not '4.weight/exp_avg'", "'4.weight/exp"),
    (the_weight_of_another_layer, "g '4.weight.grad' is not '3.weight.grad'", "'3.weight.grad'"),
    (a_frozen_weight, "would overwrite the persistent buffer '3.weight'", "overwrite the persist"),
    (an_input_of_another_size, "dy '4.out.grad' has 3840 B", "dimensions"),
    (a_stride_that_gives_other_images, "dy ", "conv2d_grad_w.dy"),
    (groups_that_split_no_channels, "w '0.weight' has ", "cannot be split into 7 groups"),
    (an_infinite_limit, "limit is inf", "limit is inf"),
    (momentum_without_a_buffer, "momentum 0.5 and no momentum buffer", "has momentum 0.5 and no"),
    (too_little_workspace, "its workspace ('0.blocks_sgd_step.ws') has 64 B", "has 64 bytes"),
]


@pytest.mark.parametrize(
    ("lie", "checker", "engine"), LIES, ids=[change.__name__ for change, _, _ in LIES]
)
def test_both_name_the_lie(lie: Callable[[Edit], None], checker: str, engine: str) -> None:
    optimizer = optim.Adam() if lie is the_state_of_another_layer else optim.SGD(lr=0.1)
    e = Edit(plan_of(optimizer))
    steps = get_field(e.content, "header", 0, "steps_count")
    codes = [get_field(e.content, "steps", i, "op") for i in range(steps)]
    assert sum(code in UPDATE_OF for code in codes) == 3
    assert findings(e.content) == []
    lie(e)
    assert checker in "; ".join(findings(e.content))
    with pytest.raises(at.ArmtrainError) as caught:
        engine_module().Engine(e.content, ignore_memory=True).close()
    assert engine in str(caught.value)
