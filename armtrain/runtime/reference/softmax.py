"""Softmax and its logarithm along one axis, in the forms that cannot overflow."""

from __future__ import annotations

import numpy as np

from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs

__all__ = ["log_softmax_fwd", "log_softmax_grad", "softmax_fwd", "softmax_grad"]


def _sum(call: Call, values: Array) -> Array:
    """Return sums along the axis, which stays as one of size 1."""
    return np.asarray(values.sum(axis=call.integer("axis"), keepdims=True))


def _from_maximum(call: Call) -> Array:
    """Return x less its maximum along the axis."""
    x = call["x"]
    return np.asarray(x - x.max(axis=call.integer("axis"), keepdims=True))


def softmax_fwd(call: Call) -> Outputs:
    """Y = e^x over the sum of e^x."""
    e = np.exp(_from_maximum(call))
    return {"y": e / _sum(call, e)}


def softmax_grad(call: Call) -> Outputs:
    """Dx = y (dy - the sum of y dy)."""
    y, dy = call["y"], call["dy"]
    return {"dx": y * (dy - _sum(call, y * dy))}


def log_softmax_fwd(call: Call) -> Outputs:
    """Y = x less the logarithm of the sum of e^x."""
    x = _from_maximum(call)
    return {"y": x - np.log(_sum(call, np.exp(x)))}


def log_softmax_grad(call: Call) -> Outputs:
    """Dx = dy - e^y times the sum of dy."""
    dy = call["dy"]
    return {"dx": dy - np.exp(call["y"]) * _sum(call, dy)}
