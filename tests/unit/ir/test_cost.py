"""The cost model against sums done by hand."""

from __future__ import annotations

import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.board.profile import board_ids, load_board
from armtrain.errors import PlanError
from armtrain.ir.cost import Rates, Work, seconds_of, work_of
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Phase, Program, Step
from armtrain.planfile.predict import ASSUMED, rates_from_json, rates_of

BATCH = 2


def program_of(*layers: nn.Module) -> Program:
    """Return the program of layers on images of 3x8x6."""
    options = {"loss": nn.MSELoss(), "optimizer": optim.SGD(lr=0.1), "threads": 1}
    net = nn.Sequential(*layers)
    return at.plan(net, input_shape=(3, 8, 6), batch_size=BATCH, **options).program  # type: ignore[arg-type]


def works(program: Program, op: OpCode) -> list[Work]:
    """Return the work of the training steps with an operation."""
    steps: list[Step] = [s for s in program.steps if (s.op, s.phase) == (op, Phase.TRAIN)]
    return [work_of(step, program.tensors) for step in steps]


def test_convolutions() -> None:
    program = program_of(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 6, 3, padding=1, groups=2))
    first, second = works(program, OpCode.CONV2D_FWD)
    pixels = BATCH * 6 * 4
    assert first.flops == 2 * pixels * 4 * 3 * 9
    assert first.nbytes == 4 * (BATCH * 3 * 8 * 6 + 4 * 3 * 9 + 4 + pixels * 4)
    assert second.flops == 2 * pixels * 6 * 2 * 9
    assert works(program, OpCode.CONV2D_GRAD_W)[0].flops == second.flops
    assert works(program, OpCode.CONV2D_GRAD_X)[0].flops == second.flops
    assert first.product == second.product == 1.0


def test_depthwise_convolutions_reach_less() -> None:
    program = program_of(nn.Conv2d(3, 3, 3, groups=3))
    (work,) = works(program, OpCode.CONV2D_FWD)
    assert work.flops == 2 * BATCH * 6 * 4 * 3 * 9
    assert work.product < 1.0


def test_transposed_convolutions_and_linear_layers() -> None:
    program = program_of(nn.ConvTranspose2d(3, 5, 2, stride=2), nn.Flatten(), nn.Linear(960, 7))
    (work,) = works(program, OpCode.CONV_TRANSPOSE2D_FWD)
    assert work.flops == 2 * BATCH * 8 * 6 * 3 * 5 * 4
    assert works(program, OpCode.LINEAR_FWD)[0].flops == 2 * BATCH * 960 * 7
    assert works(program, OpCode.LINEAR_GRAD_X)[0].flops == 2 * BATCH * 960 * 7


def test_passes_move_bytes() -> None:
    program = program_of(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 3, 1))
    image = 4 * BATCH * 3 * 8 * 6
    assert works(program, OpCode.RELU_FWD)[0].nbytes == 2 * image
    assert works(program, OpCode.RELU_GRAD)[0].nbytes == 3 * image
    assert works(program, OpCode.BATCHNORM2D_FWD)[0].nbytes == 3 * image + 4 * 3 * (2 + 2 * 2 + 2)


def test_seconds() -> None:
    rates = Rates(2.0, 1000.0, "measured")
    assert seconds_of(Work(8_000_000_000, 10, 1.0), rates, 1) == 4.0
    assert seconds_of(Work(8_000_000_000, 10, 1.0), rates, 4) == 1.0
    assert seconds_of(Work(8_000_000_000, 10, 0.5), rates, 1) == 8.0
    assert seconds_of(Work(1, 3_000_000_000), rates, 4) == 3.0


def test_every_board_has_rates() -> None:
    for name in board_ids():
        rates = rates_of(load_board(name))
        assert rates.basis == ("derived" if load_board(name).clusters else "assumed")
    assert rates_of(load_board("generic")) == ASSUMED
    zero = rates_of(load_board("raspberrypi-zero-2-w"))
    assert (zero.product_gflop_s, zero.pass_mb_s) == (4.0, 2600.0)


def test_a_profile_may_say_its_rates(tmp_path: object) -> None:
    path = f"{tmp_path}/mine.toml"
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            'id = "mine"\nname = "mine"\nthreads = 2\n[compute]\n'
            'product_gflop_s = { value = 3.5, source = "measured: a step of vgg16" }\n'
            'pass_mb_s = { value = 900, source = "measured: batch norm" }\n'
        )
    assert rates_of(load_board(path)) == Rates(3.5, 900.0, "measured")


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_rates_in_a_plan_are_positive(value: float) -> None:
    entry = {"product_gflop_s": value, "pass_mb_s": 1.0, "basis": "assumed"}
    with pytest.raises(PlanError, match=r"product_gflop_s is .* no positive number"):
        rates_from_json(entry)
