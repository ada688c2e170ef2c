"""The activation with a trained slope."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from armtrain.errors import ArgumentError, ShapeError
from armtrain.limits import MAX_FLOAT
from armtrain.nn.arguments import Rule, positive, refuse_unlike
from armtrain.nn.module import Module
from armtrain.nn.parameter import Buffer, Parameter, constant
from armtrain.nn.tensor import Tensor
from armtrain.values import real

__all__ = ["PReLU", "sloped"]


def sloped(x: Tensor, weight: Buffer) -> Tensor:
    """Return x where it is positive, elsewhere x times the slope of all, or of its channel.

    Raises
    ------
    ArgumentError
        The weight is no parameter of one number, or of one for each channel.
    """
    if not isinstance(weight, Buffer) or weight.shape not in ((1,), (x.shape[1],)):
        raise ArgumentError(
            f"prelu: weight needs a nn.Parameter of shape (1,) or ({x.shape[1]},), got "
            f"{getattr(weight, 'shape', weight)!r:.80}"
        )
    above = x.relu()
    below = x - above  # 0 where x is positive: exact, and the slope at 0 is torch's
    if weight.shape == (1,) or x.ndim == 2:
        return above + below * weight
    last = x.ndim - 1
    to_last = (0, *range(2, x.ndim), 1)
    back = (0, last, *range(1, last))
    return above + (below.permute(to_last) * weight).permute(back)


class PReLU(Module):
    """x where it is positive, `weight` x elsewhere.

    Parameters
    ----------
    num_parameters : int
        1, or one slope for each channel (dimension 1).
    init : float
        Slope at the start.
    """

    num_parameters: int
    init: float
    _rules: ClassVar[Mapping[str, Rule]] = {
        "num_parameters": positive,
        "init": partial(real, low=-MAX_FLOAT, high=MAX_FLOAT),
    }

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self._set(num_parameters=num_parameters, init=init)
        self.weight = Parameter((self.num_parameters,), constant(self.init))

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        count = self.num_parameters
        refuse_unlike(f"PReLU({count})", "a weight", self.weight, (count,))
        if count not in (1, x.size(1)):
            raise ShapeError(
                f"PReLU({count}) needs {count} channels, its input has shape {x.shape}; "
                f"write nn.PReLU({x.shape[1]}) or nn.PReLU()"
            )
        return sloped(x, self.weight)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"num_parameters={self.num_parameters}"
