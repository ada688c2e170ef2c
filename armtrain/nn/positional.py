"""Places in a sequence, told by sines and cosines."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal
from typing import ClassVar

from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.program import Init, InitKind
from armtrain.limits import MAX_DIM
from armtrain.nn.arguments import Rule, positive, refuse_unlike
from armtrain.nn.module import Module
from armtrain.nn.parameter import Buffer
from armtrain.nn.tensor import Tensor
from armtrain.values import integer, real

__all__ = ["PositionalEncoding"]

_MOST_PLACES = 2**20  # sines of larger angles are not promised
_DIGITS = 40


def _even(what: str, value: object) -> int:
    """Return a number of features that pairs of sine and cosine fill."""
    size = integer(what, value, 2, MAX_DIM)
    if size % 2:
        raise ArgumentError(f"{what} needs an even number, got {size}; use {size + 1}")
    return size


def _factor(base: float, size: int) -> float:
    """Return base^(-2 / size), the same on every machine: correctly rounded decimals."""
    exact = Context(prec=_DIGITS)
    return float(exact.power(Decimal(base), exact.divide(Decimal(-2), Decimal(size))))


class PositionalEncoding(Module):
    """Adds sines and cosines of the place to values of shape (N, length, d_model).

    Place p adds sin(p base^(-2 k / d_model)) to feature 2 k and the cosine to feature 2 k + 1. They
    are a buffer `pe` (length, d_model), saved with the weights and never trained, that the engine
    computes by code of its own, with the same bits on every machine.

    Source: Vaswani et al., "Attention Is All You Need" (arXiv 1706.03762), section 3.5.

    Parameters
    ----------
    d_model : int
        Features, an even number.
    length : int
        Places.
    base : float
    """

    d_model: int
    length: int
    base: float
    pe: Buffer
    _rules: ClassVar[Mapping[str, Rule]] = {
        "d_model": _even,
        "length": lambda what, value: positive(what, value, _MOST_PLACES),
        "base": lambda what, value: real(what, value, 1.0, 1e30),
    }

    def __init__(self, d_model: int, length: int, base: float = 10000.0) -> None:
        super().__init__()
        self._set(d_model=d_model, length=length, base=base)
        init = Init(InitKind.SINUSOID, _factor(self.base, self.d_model))
        self.pe = Buffer((self.length, self.d_model), init)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        what, shape = f"PositionalEncoding({self.d_model}, {self.length})", self.pe.shape
        refuse_unlike(what, "pe", self.pe, (self.length, self.d_model))
        if x.shape[1:] != shape:
            sizes = ", ".join(map(str, x.shape[:0:-1])) if x.ndim == 3 else "features, places"
            raise ShapeError(
                f"{what} needs values of shape (N, {self.length}, {self.d_model}), its input has "
                f"{x.shape}; write nn.PositionalEncoding({sizes})"
            )
        return x + self.pe

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.d_model}, {self.length}, base={self.base}"
