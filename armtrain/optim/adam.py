"""Adam, and Adam with decoupled weight decay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from armtrain.errors import ArgumentError
from armtrain.limits import MIN_FLOAT
from armtrain.optim.base import Optimizer, number
from armtrain.values import real

__all__ = ["Adam", "AdamW"]

_BELOW_ONE = 1.0 - 2.0**-53


@dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Adam as `torch.optim.Adam` (Kingma and Ba, arXiv 1412.6980).

    Parameters
    ----------
    lr : float
    betas : (float, float)
        Decay of the mean and of the mean square of gradients.
    eps : float
        Added to the root of the bias-corrected mean square.
    weight_decay : float
        Added to the gradient times the weight.
    """

    word: ClassVar[str] = "adam"
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        """Check the values by torch's rules."""
        for name in ("lr", "eps", "weight_decay"):
            number(self, name)
        given = tuple(self.betas) if isinstance(self.betas, tuple | list) else ()
        if len(given) != 2:
            raise ArgumentError(f"{self.title}: betas needs two numbers, got {self.betas!r}")
        betas = [
            real(f"{self.title}: betas[{index}]", beta, 0.0, _BELOW_ONE, MIN_FLOAT)
            for index, beta in enumerate(given)
        ]
        object.__setattr__(self, "betas", (betas[0], betas[1]))

    def items(self) -> tuple[tuple[str, float | bool], ...]:
        """Return hyper-parameters with the betas one by one."""
        return (
            ("lr", self.lr),
            ("beta1", self.betas[0]),
            ("beta2", self.betas[1]),
            ("eps", self.eps),
            ("weight_decay", self.weight_decay),
        )


@dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """Adam with decoupled weight decay as `torch.optim.AdamW` (arXiv 1711.05101).

    Parameters
    ----------
    lr, betas, eps
        As `Adam`.
    weight_decay : float
        The weight is multiplied by 1 - lr * weight_decay before each step; the gradient and its
        moments do not see it.
    """

    word: ClassVar[str] = "adamw"
    weight_decay: float = 1e-2
