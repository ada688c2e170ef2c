"""Softmax and its logarithm; sums are taken in double, of which 2^-53 a term remains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from armtrain.ir.ops import OpCode
from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs
from armtrain.runtime.reference.softmax import counted
from tests.tolerances.model import TINY, Bound, U

__all__ = ["BOUNDS"]

_FAR = 700.0  # below the largest score: nothing in a sum
_EXP = 2.2  # roundings of the exponential, whose bound is 1.1 units in the last place


def _sum(call: Call, values: Array) -> Array:
    """Return sums along the axis."""
    return np.asarray(values.sum(axis=call.integer("axis"), keepdims=True))


def _exponent(call: Call) -> tuple[Array, Array]:
    """Return the distances from the maximum, and the relative error of the sum's terms together."""
    x = call["x"]
    distance = x.max(axis=call.integer("axis"), keepdims=True) - x
    e = np.exp(-distance)
    return distance, _sum(call, e * (distance + _EXP)) / _sum(call, e)


def _softmax(call: Call, exact: Outputs) -> Outputs:
    """The exponential inherits the rounding of its argument; one quotient, one product."""
    distance, together = _exponent(call)
    return {"y": U * exact["y"] * (distance + _EXP + together + 2) + TINY}


def _masked_softmax(call: Call, exact: Outputs) -> Outputs:
    """A softmax of what counts; the rest is 0."""
    counts = counted(call) != 0
    top = np.where(counts, call["x"], -_FAR).max(axis=-1, keepdims=True)
    scores = np.where(counts, call["x"], top - _FAR)
    plain = replace(call, values={"x": scores}, attrs={"axis": scores.ndim - 1})
    return {"y": np.where(counts, _softmax(plain, exact)["y"], 0.0)}


def _log_softmax(call: Call, exact: Outputs) -> Outputs:
    """The distance, the logarithm and the difference are rounded."""
    distance, together = _exponent(call)
    y = np.abs(exact["y"])
    return {"y": U * (distance + together + np.abs(y - distance) + y)}


def _spare(call: Call, terms: Array) -> Array:
    """Return what a sum in double is off by."""
    return 2.0**-53 * call["dy"].shape[call.integer("axis")] * _sum(call, np.abs(terms))


def _softmax_grad(call: Call, exact: Outputs) -> Outputs:
    """The sum, the difference and the product are rounded."""
    y, dy = call["y"], call["dy"]
    total = _sum(call, y * dy)
    inner = U * (np.abs(total) + 2 * np.abs(dy - total)) + _spare(call, y * dy)
    return {"dx": np.abs(y) * inner + TINY}


def _log_softmax_grad(call: Call, exact: Outputs) -> Outputs:
    """The sum, the exponential, the product and the difference are rounded."""
    p, dy = np.exp(call["y"]), call["dy"]
    total = np.abs(_sum(call, dy))
    inner = p * (U * (_EXP + 2) * total + _spare(call, dy))
    return {"dx": inner + U * np.abs(exact["dx"]) + TINY * (1 + total)}


BOUNDS: dict[OpCode, Bound] = {
    OpCode.SOFTMAX_FWD: _softmax,
    OpCode.MASKED_SOFTMAX_FWD: _masked_softmax,
    OpCode.SOFTMAX_GRAD: _softmax_grad,
    OpCode.LOG_SOFTMAX_FWD: _log_softmax,
    OpCode.LOG_SOFTMAX_GRAD: _log_softmax_grad,
}
