"""Element-wise activations."""

from __future__ import annotations

from armtrain.ir.graph import ReluAttrs, TanhAttrs
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor

__all__ = ["ReLU", "Tanh"]


class ReLU(Module):
    """max(x, 0).

    Parameters
    ----------
    inplace : bool
        Accepted and without effect: the compiler works in place wherever that is safe.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = bool(inplace)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        return x.record(self, ReluAttrs())


class Tanh(Module):
    """tanh(x)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        return x.record(self, TanhAttrs())
