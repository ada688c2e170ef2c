"""Cosines: shapes, refusals, layer and function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from armtrain import nn
from armtrain.errors import ArgumentError, ShapeError
from armtrain.nn.functional import cosine_similarity


class Halves(nn.Module):
    """A function of the two halves of dimension 1."""

    def __init__(self, function: Callable[[Any, Any], nn.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.function(*x.chunk(2, 1))


@pytest.mark.parametrize(
    ("shape", "dim", "expected"),
    [
        ((8,), 1, (2, 1)),
        ((8,), -1, (2, 1)),
        ((8, 5), 1, (2, 5)),
        ((8, 5), -1, (2, 4)),
        ((8, 5, 3), 2, (2, 4, 3)),
    ],
)
def test_the_dimension_goes_but_for_features(
    shape: tuple[int, ...], dim: int, expected: tuple[int, ...]
) -> None:
    layer = nn.CosineSimilarity(dim)
    theirs = nn.trace(Halves(layer), shape, 2)
    ours = nn.trace(Halves(lambda a, b: cosine_similarity(a, b, dim)), shape, 2)
    assert theirs.nodes[-1].shape == expected
    assert [n.attrs for n in ours.nodes] == [n.attrs for n in theirs.nodes]
    assert repr(layer) == f"CosineSimilarity(dim={dim}, eps=1e-08)"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a, b: cosine_similarity(a, b, 0), "dim=0 .* use 1 to 2, or -1 .* stay apart"),
        (lambda a, b: cosine_similarity(a, b, 3), "dim=3 of values of shape .2, 4, 5."),
        (lambda a, b: cosine_similarity(a, b, -3), "dim=-3 of values"),
        (lambda a, b: cosine_similarity(a, b[:, :2]), r"\(2, 4, 5\) and \(2, 2, 5\): both need"),
        (lambda a, b: cosine_similarity(a, 1.0), "cosine_similarity was called with float"),
    ],
)
def test_misfits_are_refused(function: Callable[[Any, Any], nn.Tensor], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        nn.trace(Halves(function), (8, 5), 2)


@pytest.mark.parametrize("eps", [0.0, 1e-20, float("nan"), "small"])
def test_a_length_whose_square_is_not_a_number_of_float32_is_refused(eps: Any) -> None:
    with pytest.raises(ArgumentError, match="eps needs a finite number from 1e-18"):
        nn.CosineSimilarity(eps=eps)
