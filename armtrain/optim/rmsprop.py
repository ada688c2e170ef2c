"""RMSprop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from armtrain.optim.base import Optimizer, number
from armtrain.values import truth

__all__ = ["RMSprop"]


@dataclass(frozen=True, kw_only=True)
class RMSprop(Optimizer):
    """RMSprop as `torch.optim.RMSprop` (Tieleman and Hinton, 2012).

    Parameters
    ----------
    lr : float
    alpha : float
        Decay of the mean square of gradients, at most 1.
    eps : float
        Added to the root of the mean square.
    weight_decay : float
        Added to the gradient times the weight.
    momentum : float
        0 needs no buffer; otherwise the quotients are accumulated in one per parameter.
    centered : bool
        Subtract the squared mean of gradients from the mean square, with one more buffer. Where
        rounding makes the difference negative it counts as 0, while torch's weight becomes NaN.
    """

    word: ClassVar[str] = "rmsprop"
    lr: float = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    def __post_init__(self) -> None:
        """Check the values by torch's rules, and that alpha is a share."""
        for name in ("lr", "eps", "weight_decay", "momentum"):
            number(self, name)
        number(self, "alpha", high=1.0)
        object.__setattr__(self, "centered", truth("optim.RMSprop: centered", self.centered))
