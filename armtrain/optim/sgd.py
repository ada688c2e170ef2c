"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from armtrain.errors import ArgumentError
from armtrain.limits import MAX_FLOAT
from armtrain.optim.base import Optimizer, number
from armtrain.values import truth

__all__ = ["SGD"]


@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Stochastic gradient descent as `torch.optim.SGD`.

    Parameters
    ----------
    lr : float
    momentum : float
        0 needs no state; otherwise one buffer per parameter, at first the gradient itself.
    dampening : float
        The gradient enters the buffer times (1 - dampening).
    weight_decay : float
        Added to the gradient times the weight.
    nesterov : bool
        Needs momentum > 0 and dampening 0.
    """

    word: ClassVar[str] = "sgd"
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        """Check the values by torch's rules."""
        for name in ("lr", "momentum", "dampening", "weight_decay"):
            number(self, name, -MAX_FLOAT if name == "dampening" else 0.0)
        object.__setattr__(self, "nesterov", truth("optim.SGD: nesterov", self.nesterov))
        if self.nesterov and (self.momentum <= 0.0 or self.dampening != 0.0):
            raise ArgumentError(
                "optim.SGD: nesterov=True needs momentum > 0 and dampening 0, got "
                f"momentum={self.momentum}, dampening={self.dampening}"
            )
