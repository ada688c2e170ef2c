"""Modules that compute nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from armtrain.limits import MAX_DIM
from armtrain.nn.arguments import Rule
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor, flatten
from armtrain.values import integer

__all__ = ["Flatten", "Identity"]

_DIM = partial(integer, low=-MAX_DIM, high=MAX_DIM)


class Flatten(Module):
    """(N, ...) to (N, product of the rest).

    Parameters
    ----------
    start_dim, end_dim : int
        Only 1 and -1: the batch dimension stays.
    """

    start_dim: int
    end_dim: int
    _rules: ClassVar[Mapping[str, Rule]] = {"start_dim": _DIM, "end_dim": _DIM}

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self._set(start_dim=start_dim, end_dim=end_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of shape (N, features)."""
        return flatten(x, self, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Identity(Module):
    """Returns its input.

    Parameters
    ----------
    *args, **kwargs
        Ignored, so that it can stand for any layer.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """Return `x`."""
        return x
