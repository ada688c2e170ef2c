"""Operations and bytes of steps, counted by hand for small networks."""

from __future__ import annotations

import armtrain as at
from armtrain import nn, optim
from armtrain.ir.cost import product_flops, step_bytes
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Phase


def train_steps(
    net: nn.Module, shape: tuple[int, ...], batch: int
) -> list[tuple[OpCode, int, int]]:
    """Return (operation, FLOP, bytes) of the steps of training."""
    plan = at.plan(
        *(net,),
        input_shape=shape,
        batch_size=batch,
        loss=nn.MSELoss(),
        optimizer=optim.SGD(lr=0.1),
        threads=1,
    )
    tensors = plan.program.tensors
    return [
        (s.op, product_flops(s, tensors), step_bytes(s, tensors))
        for s in plan.program.steps
        if s.phase is Phase.TRAIN
    ]


def test_a_linear_layer() -> None:
    found = {op: (flops, size) for op, flops, size in train_steps(nn.Linear(3, 2), (3,), 4)}
    assert found[OpCode.LINEAR_FWD] == (2 * 4 * 3 * 2, 4 * (4 * 3 + 3 * 2 + 2 + 4 * 2))
    assert found[OpCode.LINEAR_GRAD_W] == (2 * 4 * 3 * 2, 4 * (4 * 3 + 4 * 2 + 3 * 2 + 2))
    assert OpCode.LINEAR_GRAD_X not in found


def test_a_weight_that_is_updated_is_read_and_written() -> None:
    (update,) = [
        size for op, _, size in train_steps(nn.Linear(3, 2, bias=False), (3,), 4)
        if op is OpCode.SGD_STEP
    ]  # fmt: skip
    assert update == 4 * 3 * 2 * 3


def test_convolutions_of_groups() -> None:
    net = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 8, 3, stride=2, groups=8))
    steps = train_steps(net, (4, 6, 6), 2)
    flops = {(op, flops) for op, flops, _ in steps if flops}
    dense, depthwise = 2 * 2 * 6 * 6 * 8 * 4 * 9, 2 * 2 * 2 * 2 * 8 * 9
    assert flops == {
        *((op, dense) for op in (OpCode.CONV2D_FWD, OpCode.CONV2D_GRAD_W)),
        *((op, depthwise) for op in (OpCode.CONV2D_FWD, OpCode.CONV2D_GRAD_W)),
        (OpCode.CONV2D_GRAD_X, depthwise),
    }


def test_a_transposed_convolution_counts_pixels_of_its_input() -> None:
    steps = train_steps(nn.ConvTranspose2d(3, 5, 2, stride=2), (3, 4, 4), 2)
    assert {flops for _, flops, _ in steps if flops} == {2 * 2 * 4 * 4 * 3 * 5 * 4}


class Attend(nn.Module):
    """Products of values with values, one of them transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        y = self.inner(x)
        return (y @ y.transpose(1, 2)) @ y


def test_products_of_values() -> None:
    steps = train_steps(Attend(), (5, 6), 2)
    flops = [flops for op, flops, _ in steps if op is OpCode.MATMUL]
    assert len(flops) >= 6
    assert set(flops) == {2 * 2 * 5 * 6 * 5}
