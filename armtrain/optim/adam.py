"""Adam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from armtrain.optim.base import Optimizer, check_range, number

__all__ = ["Adam"]


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
            check_range(self, name, getattr(self, name))
        betas = tuple(self.betas) if isinstance(self.betas, tuple | list) else ()
        if len(betas) != 2 or not all(isinstance(b, int | float) for b in betas):
            raise ValueError(f"optim.Adam: betas needs two numbers, got {self.betas!r}")
        object.__setattr__(self, "betas", (float(betas[0]), float(betas[1])))
        for index, beta in enumerate(self.betas):
            check_range(self, f"betas[{index}]", beta, below=1.0)

    def items(self) -> tuple[tuple[str, float | bool], ...]:
        """Return hyper-parameters with the betas one by one."""
        return (
            ("lr", self.lr),
            ("beta1", self.betas[0]),
            ("beta2", self.betas[1]),
            ("eps", self.eps),
            ("weight_decay", self.weight_decay),
        )
