"""Softmax and its logarithm along one axis, in the forms that cannot overflow."""

from __future__ import annotations

import numpy as np

from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs

__all__ = [
    "log_softmax_fwd",
    "log_softmax_grad",
    "masked_softmax_fwd",
    "softmax_fwd",
    "softmax_grad",
]


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


def counted(call: Call) -> Array:
    """Return what counts of the scores x[N,..,L,S]: 1 there, 0 elsewhere."""
    shape = call["x"].shape
    counts = np.tri(*shape[-2:]) if call.integer("causal") else np.ones(shape[-2:])
    if "mask" in call.values:
        sample, keys = shape[0], shape[-1]
        mask = (call["mask"] != 0).reshape((sample, *(1,) * (len(shape) - 2), keys))
        counts = counts * mask
    return np.asarray(np.broadcast_to(counts, shape))


def masked_softmax_fwd(call: Call) -> Outputs:
    """Y = e^x over the sum of e^x of what counts, 0 elsewhere."""
    counts = counted(call) != 0
    top = np.where(counts, call["x"], -np.inf).max(axis=-1, keepdims=True)
    e = np.exp(np.where(counts, call["x"] - np.where(np.isneginf(top), 0.0, top), -np.inf))
    total = e.sum(axis=-1, keepdims=True)
    return {"y": e / np.where(counts.any(axis=-1, keepdims=True), total, 1.0)}
