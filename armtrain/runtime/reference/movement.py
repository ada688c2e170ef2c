"""What moves numbers without changing them."""

from __future__ import annotations

import numpy as np

from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs

__all__ = ["permute", "place", "slice"]


def permute(call: Call) -> Outputs:
    """Axes in another order."""
    perm = [int(axis) for axis in call.many("perm")]
    return {"y": call["x"].transpose(0, *perm)}


def _part(call: Call, whole: Array, length: int) -> Array:
    """Return a view of the part of an array that a step names."""
    axis, start, step = (call.integer(name) for name in ("axis", "start", "step"))
    ahead = np.moveaxis(whole, axis, 0)
    return np.moveaxis(ahead[start : start + (length - 1) * step + 1 : step], 0, axis)


def slice(call: Call) -> Outputs:
    """Y = x[start::step] along one axis."""
    return {"y": _part(call, call["x"], call.shapes["y"][call.integer("axis")])}


def place(call: Call) -> Outputs:
    """Y = whole with x in, or added to, y[start::step]."""
    x, y = call["x"], np.zeros(call.shapes["y"])
    y[...] = call.get("whole", 0.0)
    part = _part(call, y, x.shape[call.integer("axis")])
    part[...] = part + x if call.integer("add") else x
    return {"y": y}
