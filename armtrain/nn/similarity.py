"""The cosine of the angle between two values, made of operations that there are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from armtrain.errors import ShapeError
from armtrain.nn.arguments import Rule
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor
from armtrain.values import integer, real

__all__ = ["CosineSimilarity", "cosine"]

_LEAST, _MOST = 1e-18, 1e18
"""Of a length: float32 holds its square."""
_eps = partial(real, low=_LEAST, high=_MOST)


def cosine(x1: Tensor, x2: Tensor, dim: int, eps: float) -> Tensor:
    """Return the cosines of x1 and x2 along a dimension; lengths count as `eps` at least.

    Raises
    ------
    ShapeError
        Two shapes, or a dimension that is none of a sample's.
    """
    if x1.shape != x2.shape:
        raise ShapeError(
            f"cosine_similarity of values of shape {x1.shape} and {x2.shape}: both need the same "
            "shape"
        )
    place = dim + x1.ndim if dim < 0 else dim
    if not 1 <= place < x1.ndim:
        raise ShapeError(
            f"cosine_similarity: dim={dim} of values of shape {x1.shape} is not available; use 1 "
            f"to {x1.ndim - 1}, or -1 for the last: samples of a batch stay apart"
        )
    keep = x1.ndim == 2
    dot = (x1 * x2).sum(place, keep)
    return dot / (_length(x1, place, keep, eps) * _length(x2, place, keep, eps))


def _length(x: Tensor, dim: int, keep: bool, eps: float) -> Tensor:
    """Return the square root of the sum of squares, at least `eps`: there its gradient is 0."""
    return ((x.square().sum(dim, keep) - eps**2).relu() + eps**2).sqrt()


class CosineSimilarity(Module):
    """The cosines of two values along a dimension, which the result has no more.

    Of values (N, features) it has shape (N, 1), where torch's has (N,).

    Parameters
    ----------
    dim : int
        Not 0, the batch.
    eps : float
        Lengths below it count as this much.
    """

    dim: int
    eps: float
    _rules: ClassVar[Mapping[str, Rule]] = {
        "dim": partial(integer, low=-5, high=5),
        "eps": _eps,
    }

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self._set(dim=dim, eps=eps)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the cosines."""
        return cosine(x1, x2, self.dim, self.eps)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"dim={self.dim}, eps={self.eps}"
