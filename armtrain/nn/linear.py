"""Fully connected layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from armtrain.ir.graph import LinearAttrs
from armtrain.nn.arguments import Rule, positive, refuse_unlike
from armtrain.nn.module import Module
from armtrain.nn.parameter import Parameter, uniform_fan_in
from armtrain.nn.tensor import Tensor
from armtrain.values import truth

__all__ = ["Linear"]


class Linear(Module):
    """y = x W^T + b on x of shape (N, in_features).

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
        Whether there is a b of shape (out_features,). W has shape (out_features, in_features).
    """

    in_features: int
    out_features: int
    _rules: ClassVar[Mapping[str, Rule]] = {
        "in_features": positive,
        "out_features": positive,
    }

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self._set(in_features=in_features, out_features=out_features)
        init = uniform_fan_in(self.in_features)
        self.weight = Parameter((self.out_features, self.in_features), init)
        self.bias = Parameter((self.out_features,), init) if truth("Linear: bias", bias) else None

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of shape (N, out_features)."""
        what = f"Linear({self.in_features}, {self.out_features})"
        refuse_unlike(what, "a weight", self.weight, (self.out_features, self.in_features))
        return x.record(self, LinearAttrs(), {"weight": self.weight, "bias": self.bias})

    def extra_repr(self) -> str:
        """Return the arguments."""
        bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={bias}"
