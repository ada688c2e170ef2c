"""Modules that compute nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from armtrain.errors import ArgumentError
from armtrain.limits import MAX_DIM
from armtrain.nn.arguments import Rule
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor, flatten
from armtrain.values import as_integer, as_tuple, integer

__all__ = ["Flatten", "Identity", "Unflatten"]

_DIM = partial(integer, low=-MAX_DIM, high=MAX_DIM)


class Flatten(Module):
    """(N, ...) to (N, product of the rest).

    Parameters
    ----------
    start_dim, end_dim : int
        First and last of the dimensions that become one; 0 is the batch.
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


def _sizes(what: str, value: object) -> tuple[int, ...]:
    """Return the sizes that a dimension becomes, one of them may be -1."""
    given = as_tuple(value) or ()
    sizes = tuple(n for n in map(as_integer, given) if n is not None and (n == -1 or n > 0))
    if not sizes or len(sizes) != len(given) or sizes.count(-1) > 1:
        raise ArgumentError(f"{what} needs sizes above 0, one may be -1, got {value!r:.80}")
    return sizes


class Unflatten(Module):
    """Makes several dimensions of one.

    Parameters
    ----------
    dim : int
    unflattened_size : tuple of int
        One size may be -1.
    """

    dim: int
    unflattened_size: tuple[int, ...]
    _rules: ClassVar[Mapping[str, Rule]] = {"dim": _DIM, "unflattened_size": _sizes}

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        self._set(dim=dim, unflattened_size=unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value with more dimensions."""
        return x.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


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
