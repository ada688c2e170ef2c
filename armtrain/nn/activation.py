"""Element-wise activations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from armtrain.ir.graph import ReluAttrs, TanhAttrs
from armtrain.nn.arguments import Rule
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor
from armtrain.values import truth

__all__ = ["ReLU", "Tanh"]


class ReLU(Module):
    """max(x, 0).

    Parameters
    ----------
    inplace : bool
        Accepted and without effect: the compiler works in place wherever that is safe.
    """

    inplace: bool
    _rules: ClassVar[Mapping[str, Rule]] = {"inplace": truth}

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self._set(inplace=inplace)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        return x.record(self, ReluAttrs())


class Tanh(Module):
    """tanh(x)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        return x.record(self, TanhAttrs())
