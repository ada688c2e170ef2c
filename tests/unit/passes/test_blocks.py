"""The size of a block, and which weights are updated by blocks."""

from __future__ import annotations

from math import prod

import pytest

from armtrain import nn, optim
from armtrain.ir.ops import UPDATE_OF
from armtrain.ir.program import Program, Role
from armtrain.passes.blocks import BLOCK_BYTES, block_rows
from armtrain.passes.pipeline import compile_program


@pytest.mark.parametrize(
    ("dims", "rows"),
    [
        ((784, 512), 112),  # 7 blocks of at most 128 rows
        ((256, 256), 256),  # one block is enough
        ((257, 256), 144),
        ((150528, 300), 208),
        ((150528, 10), 6272),
        ((1, 3, 3, 512, 512), 128),
        ((2, 3, 3, 16, 8), 288),
        ((100, 70_000), 16),  # a row alone is larger than a block
        ((8, 70_000), 8),
        ((1, 1), 1),
    ],
)
def test_blocks_are_as_few_and_as_equal_as_possible(dims: tuple[int, ...], rows: int) -> None:
    assert block_rows(dims) == rows
    assert rows == prod(dims[:-1]) or rows % 16 == 0
    assert 4 * rows * dims[-1] <= max(BLOCK_BYTES, 4 * 16 * dims[-1])


def updated(program: Program) -> set[str]:
    """Return the weights that are updated by blocks."""
    steps = [s for s in program.steps if s.op in UPDATE_OF]
    ids = [s.operands[0] for s in steps]
    return {program.tensors[i].name for i in ids if i is not None}


def compiled(net: nn.Module, shape: tuple[int, ...], batch: int = 4, **options: object) -> Program:
    """Return the program of a network with the squared error."""
    given = {"loss": nn.MSELoss(), "optimizer": optim.SGD(lr=0.1), **options}
    return compile_program(net, input_shape=shape, batch_size=batch, threads=1, **given)  # type: ignore[arg-type]


def test_large_maps_of_small_weights_keep_the_whole_gradient() -> None:
    """294,912 B of weights: beside maps of 4 MiB, input and derivative must not live together."""

    def net() -> nn.Module:
        return nn.Sequential(
            *(nn.Conv2d(3, 64, 3, padding=1), nn.Tanh(), nn.Conv2d(64, 64, 1)),
            nn.Conv2d(64, 128, 3, padding=1),
        )

    assert updated(compiled(net(), (3, 64, 64))) == set()
    assert updated(compiled(net(), (3, 4, 4))) == {"3.weight"}
    assert updated(compiled(net(), (3, 4, 4), by_blocks=False)) == set()


class Tied(nn.Module):
    """A layer that is used twice, and one that is used once."""

    def __init__(self) -> None:
        super().__init__()
        self.twice, self.once = nn.Linear(300, 300), nn.Linear(300, 300)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return the same layer of itself, and another."""
        return self.once(self.twice(self.twice(x)))


def test_a_gradient_that_is_a_sum_or_is_read_as_a_whole_is_made_as_a_whole() -> None:
    assert updated(compiled(Tied(), (300,))) == {"once.weight"}
    assert updated(compiled(Tied(), (300,), clip_value=0.1)) == {"once.weight"}
    assert updated(compiled(Tied(), (300,), clip_norm=0.1)) == set()
    assert updated(compiled(Tied(), (300,), train_only="*.bias")) == set()


def test_rows_that_are_no_sums_of_their_own_are_not_cut() -> None:
    """Depthwise weights, and kernel rows that are one long tap: both larger than a block here."""
    deep = nn.Sequential(nn.Conv2d(2000, 2000, 6, groups=2000), nn.Flatten(), nn.Linear(2000, 2))
    assert updated(compiled(deep, (2000, 6, 6))) == set()
    few = nn.Sequential(nn.Conv2d(3, 4000, 3), nn.Flatten(), nn.Linear(4000, 2))
    assert updated(compiled(few, (3, 3, 3))) == set()


def test_only_a_block_of_the_gradient_is_in_the_plan() -> None:
    program = compiled(nn.Linear(1000, 300), (1000,))
    sizes = {t.name: t.dims for t in program.tensors if t.role == Role.GRADIENT}
    assert sizes == {"weight.grad": (208, 300), "bias.grad": (300,)}
