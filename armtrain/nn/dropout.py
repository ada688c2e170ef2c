"""Dropout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from armtrain.errors import ArgumentError
from armtrain.ir.graph import DropoutAttrs
from armtrain.nn.arguments import Rule, rate
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor
from armtrain.values import truth

__all__ = ["Dropout"]


def _below_one(what: str, value: object) -> float:
    """Return a probability of dropping that leaves something."""
    p = rate(what, value, 1.0)
    if p == 1.0:
        raise ArgumentError(f"{what}=1 drops everything; use a number below 1")
    return p


class Dropout(Module):
    """Zeroes elements with probability `p` in training steps and scales the rest by 1 / (1 - p).

    Parameters
    ----------
    p : float
        From 0 up to but not including 1.
    inplace : bool
        Accepted and without effect: the compiler works in place wherever that is safe.
    """

    p: float
    inplace: bool
    _rules: ClassVar[Mapping[str, Rule]] = {"p": _below_one, "inplace": truth}

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self._set(p=p, inplace=inplace)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        return x.record(self, DropoutAttrs(self.p, self.training))

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"p={self.p}"
