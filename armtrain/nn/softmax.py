"""Softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from armtrain.limits import MAX_DIM
from armtrain.nn.arguments import Rule
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor, softmax
from armtrain.values import integer

__all__ = ["LogSoftmax", "Softmax"]


def _dim(what: str, value: object) -> int | None:
    """Return a dimension, or None."""
    return None if value is None else integer(what, value, -MAX_DIM, MAX_DIM)


class _Along(Module):
    """What goes along one dimension."""

    dim: int | None
    _log: ClassVar[bool]
    _rules: ClassVar[Mapping[str, Rule]] = {"dim": _dim}

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self._set(dim=dim)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        return softmax(x, self, self.dim, self._log)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"dim={self.dim}"


class Softmax(_Along):
    """e^x divided by its sum along one dimension.

    No layer to end a network with: CrossEntropyLoss takes what it gets for logits and applies a
    softmax itself.

    Parameters
    ----------
    dim : int or None
        Any but the batch's; negative ones count from the last. None is 1 for values of shape
        (N, features) and (N, C, H, W).
    """

    _log = False


class LogSoftmax(_Along):
    """The logarithm of `Softmax`, exact also where a share is too small for a float32.

    Parameters
    ----------
    dim : int or None
        Any but the batch's; negative ones count from the last. None is 1 for values of shape
        (N, features) and (N, C, H, W).
    """

    _log = True
