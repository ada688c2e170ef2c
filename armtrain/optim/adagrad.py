"""Adagrad."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from armtrain.optim.base import Optimizer, number

__all__ = ["Adagrad"]


@dataclass(frozen=True, kw_only=True)
class Adagrad(Optimizer):
    """Adagrad as `torch.optim.Adagrad` (Duchi, Hazan and Singer, 2011).

    Parameters
    ----------
    lr : float
    lr_decay : float
        The rate of a step is lr / (1 + steps before it * lr_decay).
    weight_decay : float
        Added to the gradient times the weight.
    initial_accumulator_value : float
        What the sums of squares start with.
    eps : float
        Added to the root of the sum of squares.
    """

    word: ClassVar[str] = "adagrad"
    lr: float = 1e-2
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10

    def __post_init__(self) -> None:
        """Check the values by torch's rules."""
        for name in ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"):
            number(self, name)
