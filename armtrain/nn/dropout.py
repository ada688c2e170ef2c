"""Dropout."""

from __future__ import annotations

from armtrain.errors import ArgumentError
from armtrain.ir.graph import DropoutAttrs
from armtrain.nn.arguments import rate
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor

__all__ = ["Dropout"]


class Dropout(Module):
    """Zeroes elements with probability `p` in training steps and scales the rest by 1 / (1 - p).

    Parameters
    ----------
    p : float
        From 0 up to but not including 1.
    inplace : bool
        Accepted and without effect: the compiler works in place wherever that is safe.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p = rate("Dropout: p", p, 1.0)
        self.inplace = bool(inplace)
        if self.p == 1.0:
            raise ArgumentError("Dropout: p=1 drops everything; use a number below 1")

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        return x.record(self, DropoutAttrs(self.p, self.training))

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"p={self.p}"
