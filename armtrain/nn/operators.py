"""Arithmetic of symbolic tensors with numbers, parameters and each other, as in torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armtrain.errors import ShapeError
from armtrain.ir.arithmetic import Combine
from armtrain.ir.graph import (
    AddAttrs,
    AffineAttrs,
    CombineAttrs,
    MatmulAttrs,
    PowerAttrs,
    ReduceAttrs,
)
from armtrain.limits import MAX_FLOAT, MIN_FLOAT
from armtrain.nn.parameter import Buffer
from armtrain.nn.shaping import checked_dim, flat_list
from armtrain.values import as_real, real, truth

if TYPE_CHECKING:
    from armtrain.nn.tensor import Tensor

__all__ = ["combined", "power", "product", "reduced"]

_REVERSED = {
    Combine.ADD: Combine.ADD,
    Combine.MUL: Combine.MUL,
    Combine.SUB: Combine.RSUB,
    Combine.RSUB: Combine.SUB,
    Combine.DIV: Combine.RDIV,
    Combine.RDIV: Combine.DIV,
}
_MOST_HALVES = 64


def _number(value: float) -> float:
    """Return a number that a plan can hold."""
    return real("a number in arithmetic", value, -MAX_FLOAT, MAX_FLOAT, MIN_FLOAT)


def combined(x: Tensor, other: object, how: Combine) -> Tensor:
    """Return `x` combined with a tensor, a parameter or a number."""
    if isinstance(other, Buffer):
        return x.record(None, CombineAttrs(how), {"other": other})
    if isinstance(other, type(x)):
        if x.shape == other.shape and how == Combine.ADD:
            return x.record(None, AddAttrs(), others=(other,))
        smaller = len(x.shape) == len(other.shape) and any(
            m < n for m, n in zip(x.shape, other.shape, strict=True)
        )
        if smaller:
            return other.record(None, CombineAttrs(_REVERSED[how]), others=(x,))
        return x.record(None, CombineAttrs(how), others=(other,))
    number = as_real(other)
    if number is None:
        raise ShapeError(
            f"cannot combine {type(other).__name__} with a value of shape {x.shape}: tensors of "
            "the network, its parameters and numbers take part in arithmetic"
        )
    return _with_number(x, number, how)


def _with_number(x: Tensor, number: float, how: Combine) -> Tensor:
    """Return `x` combined with a number."""
    if how == Combine.RDIV:
        inverse = power(x, -1.0)
        return inverse if number == 1.0 else inverse * number
    if how == Combine.DIV and number == 0.0:
        raise ShapeError(f"a value of shape {x.shape} is divided by 0")
    scale, shift = {
        Combine.ADD: (1.0, number),
        Combine.SUB: (1.0, -number),
        Combine.RSUB: (-1.0, number),
        Combine.MUL: (number, 0.0),
        Combine.DIV: (1.0 / number if number else 0.0, 0.0),
    }[how]
    return x.record(None, AffineAttrs(_number(scale), _number(shift)))


def power(x: Tensor, exponent: object) -> Tensor:
    """Return `x` to the power of a number: whole or half, as 2, -1 and 0.5."""
    number = as_real(exponent)
    halves = None if number is None else 2.0 * number
    if halves is None or not 0.0 < abs(halves) <= _MOST_HALVES or halves != round(halves):
        raise ShapeError(
            f"a value of shape {x.shape} to the power of {exponent!r:.80} is not available: use a "
            f"whole number or a half from {-_MOST_HALVES // 2} to {_MOST_HALVES // 2}, but 0"
        )
    return x if halves == 2.0 else x.record(None, PowerAttrs(round(halves)))


def reduced(x: Tensor, what: str, dim: object, keepdim: object, mean: bool) -> Tensor:
    """Return the sum or the mean over some dimensions."""
    if dim is None:
        raise ShapeError(
            f"{what}() of a value of shape {x.shape} would join the samples of a batch; name "
            f"dimensions from 1 on, as in {what}(dim=1)"
        )
    dims = {checked_dim(what, d, x.shape) for d in flat_list((dim,))}
    keeps = truth(f"{what}: keepdim", keepdim)
    return x.record(None, ReduceAttrs(tuple(sorted(dims)), keeps, mean))


def product(x: Tensor, other: object) -> Tensor:
    """Return the products of the matrices in the last two dimensions."""
    if not isinstance(other, type(x)):
        raise ShapeError(
            f"cannot multiply a value of shape {x.shape} by {type(other).__name__}: matrix "
            "products are of two tensors of the network; nn.Linear multiplies by a weight"
        )
    return x.record(None, MatmulAttrs(), others=(other,))
