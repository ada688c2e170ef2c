"""Operations as functions, with the names and arguments of `torch.nn.functional`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armtrain.errors import ShapeError, unknown_name
from armtrain.ir.graph import Pair
from armtrain.nn.pool import AvgPool2d, MaxPool2d
from armtrain.nn.tensor import Tensor
from armtrain.nn.tensor import flatten as _flatten
from armtrain.values import truth

__all__ = ["avg_pool2d", "flatten", "max_pool2d", "relu", "tanh"]


def _traced(name: str, value: object) -> Tensor:
    """Return a symbolic tensor; refuse anything that holds numbers."""
    if not isinstance(value, Tensor):
        raise ShapeError(
            f"functional.{name} was called with {type(value).__name__}: functions hold no data and "
            "only take part in tracing, inside forward(); use NumPy's on arrays"
        )
    return value


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return max(x, 0); `inplace` has no effect."""
    truth("relu: inplace", inplace)
    return _traced("relu", input).relu()


def tanh(input: Tensor) -> Tensor:
    """Return tanh(x)."""
    return _traced("tanh", input).tanh()


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return the input as (N, features); needs start_dim=1."""
    return _flatten(_traced("flatten", input), None, start_dim, end_dim)


def max_pool2d(
    input: Tensor,
    kernel_size: int | Pair,
    stride: int | Pair | None = None,
    padding: int | Pair = 0,
    dilation: int | Pair = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the maximum over windows; see `MaxPool2d`."""
    layer = MaxPool2d(kernel_size, stride, padding, dilation, ceil_mode=ceil_mode)
    return _traced("max_pool2d", input).record(None, layer.attrs())


def avg_pool2d(
    input: Tensor,
    kernel_size: int | Pair,
    stride: int | Pair | None = None,
    padding: int | Pair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean over windows; see `AvgPool2d`."""
    layer = AvgPool2d(kernel_size, stride, padding, ceil_mode, count_include_pad)
    return _traced("avg_pool2d", input).record(None, layer.attrs())


if not TYPE_CHECKING:  # type checkers know the names, and would take every other one for one

    def __getattr__(name: str) -> None:
        """Say what there is instead of a name that torch has and armtrain lacks."""
        raise unknown_name("armtrain.nn.functional", name, __all__)
