"""`nn.Embedding`: its arguments, what it takes, and what becomes of it in a plan."""

from __future__ import annotations

from typing import Any

import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Init, InitKind, Role
from armtrain.limits import MAX_INDICES


class Call(nn.Module):
    """A network of one function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 3)
        self.linear = nn.Linear(2, 2)
        self._function = function

    def forward(self, x: Any) -> Any:
        """Return what the function does."""
        return self._function(self, x)


def shape_of(function: Any, *input_shape: int) -> tuple[int, ...]:
    """Return the shape of what a network gives for 5 samples."""
    return nn.trace(Call(function), input_shape, 5).nodes[-1].shape


def test_arguments_are_those_of_torch() -> None:
    layer = nn.Embedding(7, 3, padding_idx=-2)
    assert (layer.weight.shape, layer.padding_idx) == ((7, 3), 5)
    assert layer.weight.init == Init(InitKind.NORMAL_BUT_ROW, 5.0, 1.0)
    assert nn.Embedding(7, 3).weight.init == Init(InitKind.NORMAL, 0.0, 1.0)
    assert repr(layer) == "Embedding(7, 3, padding_idx=5)"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, 3), "num_embeddings needs an integer from 1"),
        ((MAX_INDICES + 1, 3), "num_embeddings needs an integer from 1 to 16777216"),
        ((7, 3, 7), "padding_idx needs an integer from -7 to 6"),
        ((7, 3, -8), "padding_idx needs an integer from -7 to 6"),
        ((7, 3, None, 1.0), "max_norm=1.0 is not available"),
        ((7, 3, None, None, 2.0, True), "scale_grad_by_freq=True is not available"),
    ],
)
def test_refused_arguments(arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        nn.Embedding(*arguments)


@pytest.mark.parametrize(
    ("function", "input_shape", "shape"),
    [
        (lambda net, x: net.table(x), (4,), (5, 4, 3)),
        (lambda net, x: net.table(x[:, 1]), (4,), (5, 3)),
        (lambda net, x: net.table(x[:, 1:].reshape(-1, 3, 1)), (4,), (5, 3, 1, 3)),
        (lambda net, x: net.table(x.permute(0, 2, 1)), (4, 2), (5, 2, 4, 3)),
    ],
)
def test_shapes(function: Any, input_shape: tuple[int, ...], shape: tuple[int, ...]) -> None:
    assert shape_of(function, *input_shape) == shape


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda net, x: net.table(net.linear(x)), "takes indices, its input is computed by 'lin"),
        (lambda net, x: net.table(x * 2), "computed by 'affine'"),
        (lambda net, x: net.linear(x[:, 0]), "one number a sample, which only an embedding takes"),
        (lambda net, x: x[:, 0] + x[:, 1], "which only an embedding takes"),
        (lambda net, x: x[:, 0], "give each sample a dimension of its own"),
    ],
)
def test_refused_inputs(function: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        shape_of(function, 2)


def test_changed_arguments_ask_for_another_weight() -> None:
    layer = nn.Embedding(7, 3)
    layer.num_embeddings = 8
    with pytest.raises(ArgumentError, match=r"Embedding\(8, 3\) needs a weight of shape \(8, 3\)"):
        nn.trace(layer, (2,), 5)


def test_a_frozen_table_has_no_gradient() -> None:
    net = nn.Sequential(nn.Embedding(7, 3), nn.Flatten(), nn.Linear(6, 2))
    net[0].weight.requires_grad_(False)
    plan = at.plan(
        net, input_shape=(2,), batch_size=4, loss=nn.MSELoss(), optimizer=optim.Adam(lr=0.1)
    )
    assert OpCode.EMBEDDING_GRAD not in {step.op for step in plan.program.steps}
    gradients = {t.name for t in plan.program.tensors if t.role is Role.GRADIENT}
    assert gradients == {"2.weight.grad", "2.bias.grad"}
