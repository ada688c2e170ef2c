"""Operators and methods of symbolic tensors: torch's shapes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from armtrain import nn
from armtrain.errors import ArgumentError, ShapeError
from armtrain.nn import functional


class Call(nn.Module):
    """A network made from a function."""

    def __init__(self, function: Callable[[nn.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.function(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "shape", "expected"),
    [
        (lambda x: x.view(-1, 3, 2), (6,), (2, 3, 2)),
        (lambda x: x.reshape(-1, 2).view(2, -1), (6,), (2, 6)),
        (lambda x: x.flatten(2), (3, 4, 5), (2, 3, 20)),
        (lambda x: x.flatten(0, 1).unflatten(0, (2, 3)), (3, 4), (2, 3, 4)),
        (lambda x: x.unflatten(-1, (2, -1)), (3, 4), (2, 3, 2, 2)),
        (lambda x: x.unsqueeze(-1).unsqueeze(1), (3,), (2, 1, 3, 1)),
        (lambda x: x.unsqueeze(1).squeeze(), (3,), (2, 3)),
        (lambda x: x.unsqueeze(1).squeeze(2), (3,), (2, 1, 3)),
        (lambda x: x.permute(0, -1, 1), (3, 4), (2, 4, 3)),
        (lambda x: x.mT, (3, 4), (2, 4, 3)),
        (lambda x: x[:, -1], (3, 4), (2, 4)),
        (lambda x: x[..., 1:], (3, 4), (2, 3, 3)),
        (lambda x: x[:, None, ::2, 3], (3, 4), (2, 1, 2)),
        (lambda x: x.narrow(-1, 1, 2), (3, 4), (2, 3, 2)),
        (lambda x: x.select(1, 2), (3, 4), (2, 4)),
        (lambda x: x.chunk(3, -1)[1], (3, 4), (2, 3, 2)),
        (lambda x: x.split(3, 2)[1], (3, 4), (2, 3, 1)),
        (lambda x: x.unbind(1)[0], (3, 4), (2, 4)),
        (lambda x: functional.cat([x, x], -1), (3, 4), (2, 3, 8)),
        (lambda x: functional.stack([x, x, x], 1), (3, 4), (2, 3, 3, 4)),
        (lambda x: x @ x.mT, (3, 4), (2, 3, 3)),
        (lambda x: x.mean((1, 2), keepdim=True), (3, 4), (2, 1, 1)),
        (lambda x: x.sum(-1), (3, 4), (2, 3)),
        (lambda x: x[:, :1] * x, (3, 4), (2, 3, 4)),
    ],
)
def test_shapes_are_those_of_torch(
    function: Callable[[Any], Any], shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    graph = nn.trace(Call(function), shape, 2)
    assert graph.nodes[graph.output].shape == expected
    torch = pytest.importorskip("torch", reason="compares with torch where it is installed")
    functional_of = {"cat": torch.cat, "stack": torch.stack}
    if functional_of.keys().isdisjoint(function.__code__.co_names):
        assert tuple(function(torch.zeros(2, *shape)).shape) == expected


@pytest.mark.parametrize(
    ("net", "shape", "message"),
    [
        (nn.Flatten(3, 2), (4, 2, 2), "start_dim=1"),
        (nn.Flatten(0), (4, 2, 2), "samples of a batch stay apart"),
        (nn.Flatten(1, 7), (4, 2, 2), "dimension 7 of a value of shape"),
        (nn.Unflatten(1, (3, -1)), (4,), "cannot reshape"),
        (Call(lambda x: x + x.flatten(1)), (4, 2, 2), "cannot combine a value of shape"),
        (Call(lambda x: x + "1"), (4,), "cannot combine str with a value"),
        (Call(lambda x: x % x), (4,), "available are"),
        (Call(lambda x: x[:, :1] + x[:, :, :1]), (4, 2), "one of both has the shape of the result"),
        (Call(lambda x: x / 0), (4,), "divided by 0"),
        (Call(lambda x: x**0.3), (4,), "use a whole number or a half"),
        (Call(lambda x: x ** float("nan")), (4,), "use a whole number or a half"),
        (Call(lambda x: x ** float("inf")), (4,), "use a whole number or a half"),
        (Call(lambda x: x @ x), (4,), "both need the same dimensions"),
        (Call(lambda x: x @ x), (4, 3), "both need the same dimensions"),
        (Call(lambda x: x @ 2), (4, 3), "nn.Linear multiplies by a weight"),
        (Call(lambda x: x.mean()), (4, 3), "would join the samples of a batch"),
        (Call(lambda x: x.sum(0)), (4, 3), "samples of a batch stay apart"),
        (Call(lambda x: x.sum((1, 2))), (4, 3), "use keepdim=True"),
        (Call(lambda x: x.reshape(3, -1)), (3, 2), "keep the batch first"),
        (Call(lambda x: x.reshape(-1, 1, 1, 1, 1, 1, 1)), (4,), "keep the batch first"),
        (Call(lambda x: x.reshape(-1, 2)), (4,), "rows of each of 2 samples"),
        (Call(lambda x: x.transpose(0, 1)), (4, 2), "samples of a batch stay apart"),
        (Call(lambda x: x.permute(0, 1)), (4, 2), "each once, the batch first"),
        (Call(lambda x: x[0]), (4, 2), "start with ':'"),
        (Call(lambda x: x[:1]), (4, 2), "start with ':'"),
        (Call(lambda x: x[:, 4]), (4, 2), "integer from -4 to 3"),
        (Call(lambda x: x[:, 3:1]), (4, 2), "a slice that takes something"),
        (Call(lambda x: x[:, ::-1]), (4, 2), "a step above 0"),
        (Call(lambda x: x[:, :, :, 0]), (4, 2), "cannot index"),
        (Call(lambda x: x[:, [0, 1]]), (4, 2), "a slice that takes something"),
        (Call(lambda x: x.narrow(1, 2, 3)), (4, 2), "are not there"),
        (Call(lambda x: x.split([1, 2], 1)[0]), (4, 2), "whose sum is 4"),
        (Call(lambda x: x.split(0, 1)[0]), (4, 2), "a size above 0"),
        (Call(lambda x: x.chunk(2)[0]), (4, 2), "samples of a batch stay apart"),
        (Call(lambda x: functional.cat([x, x[:, :2]], 2)), (4, 2), "all others must be the same"),
        (Call(lambda x: functional.cat([])), (4, 2), "joins a list of tensors"),
        (
            nn.Sequential(Call(lambda x: x.reshape(-1, 3, 2, 2)), nn.Conv2d(3, 2, 1)),
            (6, 2, 2),
            "2 rows of each",
        ),
        (Call(lambda x: x.reshape(7, -1)), (4,), "cannot reshape"),
        (Call(lambda x: (x, x)), (4,), "must return one tensor, got tuple"),
        (Call(lambda x: nn.Linear(4, 4)(x)), (4,), "belongs to no module"),
    ],
)
def test_misfits_are_refused(net: nn.Module, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        nn.trace(net, shape, 2)


def test_a_number_that_no_plan_holds_is_refused() -> None:
    with pytest.raises(ArgumentError, match="a number in arithmetic needs a finite number"):
        nn.trace(Call(lambda x: x * 1e31), (4,), 2)
