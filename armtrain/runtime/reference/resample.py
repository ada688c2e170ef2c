"""Images of other sizes: each axis is a matrix of weights, output places by input places."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs

__all__ = [
    "adaptive_avgpool2d_fwd",
    "adaptive_avgpool2d_grad",
    "axis_weights",
    "upsample_bilinear2d_fwd",
    "upsample_bilinear2d_grad",
    "upsample_nearest2d_fwd",
    "upsample_nearest2d_grad",
]

Weights = Callable[[Call, str, int, int], Array]
"""(call, axis, input places, output places): the weights of one axis."""


def _adaptive(call: Call, axis: str, size: int, out: int) -> Array:
    """Return equal weights over [floor(o size / out), ceil((o + 1) size / out))."""
    o, i = np.arange(out)[:, None], np.arange(size)[None]
    inside = (i >= o * size // out) & (i * out < (o + 1) * size)
    return np.asarray(inside / inside.sum(axis=1, keepdims=True))


def _nearest(call: Call, axis: str, size: int, out: int) -> Array:
    """Return 1 at the source, which PyTorch finds in float32; at a factor of 1 or 2 in integers."""
    scale = call.number(f"scale_{axis}")
    step = np.float32(1.0 / scale) if scale else np.float32(size) / np.float32(out)
    o = np.arange(out)
    source = (o.astype(np.float32) * step).astype(np.int64)
    if out in (size, 2 * size):
        source = o * size // out
    return np.asarray(np.arange(size)[None] == np.minimum(source, size - 1)[:, None], np.float64)


def _linear(call: Call, axis: str, size: int, out: int) -> Array:
    """Return a hat of width 1 around each source."""
    scale, o = call.number(f"scale_{axis}"), np.arange(out)
    if call.integer("align_corners"):
        source = o * ((size - 1) / (out - 1) if out > 1 else 0.0)
    else:
        source = (o + 0.5) * (1.0 / scale if scale and size != out else size / out) - 0.5
    source = np.clip(source, 0.0, size - 1)[:, None]
    return np.asarray(np.maximum(1.0 - np.abs(np.arange(size)[None] - source), 0.0))


def axis_weights(call: Call, weights: Weights, x: str, y: str) -> tuple[Array, Array]:
    """Return the weights of rows and of columns."""
    (_, height, width, _), (_, rows, columns, _) = call.shapes[x], call.shapes[y]
    return weights(call, "h", height, rows), weights(call, "w", width, columns)


def _forward(weights: Weights) -> Callable[[Call], Outputs]:
    """Return the function of an operation from x to y."""

    def run(call: Call) -> Outputs:
        rows, columns = axis_weights(call, weights, "x", "y")
        return {"y": np.einsum("pi,qj,nijc->npqc", rows, columns, call["x"], optimize=True)}

    return run


def _gradient(weights: Weights) -> Callable[[Call], Outputs]:
    """Return the function of its gradient, from dy to dx."""

    def run(call: Call) -> Outputs:
        rows, columns = axis_weights(call, weights, "dx", "dy")
        return {"dx": np.einsum("pi,qj,npqc->nijc", rows, columns, call["dy"], optimize=True)}

    return run


adaptive_avgpool2d_fwd, adaptive_avgpool2d_grad = _forward(_adaptive), _gradient(_adaptive)
upsample_nearest2d_fwd, upsample_nearest2d_grad = _forward(_nearest), _gradient(_nearest)
upsample_bilinear2d_fwd, upsample_bilinear2d_grad = _forward(_linear), _gradient(_linear)
