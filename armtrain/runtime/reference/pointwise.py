"""Element-wise operations and changes of layout."""

from __future__ import annotations

import numpy as np

from armtrain.ir.arithmetic import Rectifier
from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs
from armtrain.runtime.reference.random import dropout_uniform

__all__ = [
    "add",
    "copy",
    "dropout_fwd",
    "dropout_grad",
    "nchw_to_nhwc",
    "nhwc_to_nchw",
    "rectifier_bits",
    "rectifier_bits_grad",
    "relu_fwd",
    "relu_grad",
    "tanh_fwd",
    "tanh_grad",
]


def relu_fwd(call: Call) -> Outputs:
    """Y = max(x, 0); NaN stays NaN."""
    return {"y": np.maximum(call["x"], 0.0)}


def relu_grad(call: Call) -> Outputs:
    """Dx = dy where y > 0."""
    y = call["y"]
    return {"dx": np.where(np.isnan(y), np.nan, np.where(y > 0, call["dy"], 0.0))}


def rectifier_bits(call: Call) -> Outputs:
    """Pack y > 0, and y < 6, eight to a byte, the first one lowest."""
    y = call["y"].reshape(len(call["y"]), -1)
    inside = (y > 0.0) & ((y < 6.0) | (call.integer("rectifier") != Rectifier.RELU6))
    return {"bits": np.packbits(inside, axis=1, bitorder="little").astype(float)}


def rectifier_bits_grad(call: Call) -> Outputs:
    """Dx = dy where the bit is set."""
    dy = call["dy"]
    bits = np.nan_to_num(call["bits"]).astype(np.uint8)
    inside = np.unpackbits(bits, axis=1, count=dy[0].size, bitorder="little")
    return {"dx": np.where(inside.reshape(dy.shape) != 0, dy, 0.0)}


def tanh_fwd(call: Call) -> Outputs:
    """Y = tanh(x)."""
    return {"y": np.tanh(call["x"])}


def tanh_grad(call: Call) -> Outputs:
    """Dx = dy (1 - y^2)."""
    return {"dx": call["dy"] * (1.0 - call["y"] ** 2)}


def _mask(call: Call, shape: tuple[int, ...]) -> Array:
    """Return 1 / (1 - p) for kept elements and 0 for dropped ones."""
    p = call.number("p")
    if p >= 1.0:
        return np.zeros(shape)
    uniform = dropout_uniform(call.seed, call.integer("stream"), call.step, int(np.prod(shape)))
    return np.where(uniform >= p, 1.0 / (1.0 - p), 0.0).reshape(shape)


def dropout_fwd(call: Call) -> Outputs:
    """Y = x times the mask."""
    return {"y": call["x"] * _mask(call, call["x"].shape)}


def dropout_grad(call: Call) -> Outputs:
    """Dx = dy times the same mask."""
    return {"dx": call["dy"] * _mask(call, call["dy"].shape)}


def add(call: Call) -> Outputs:
    """Y = a + b."""
    return {"y": call["a"] + call["b"]}


def copy(call: Call) -> Outputs:
    """Y = x."""
    return {"y": call["x"]}


def nhwc_to_nchw(call: Call) -> Outputs:
    """Channels-last image to torch's flattened order."""
    return {"y": call["x"].transpose(0, 3, 1, 2).reshape(call.shapes["y"])}


def nchw_to_nhwc(call: Call) -> Outputs:
    """Torch's flattened order to a channels-last image."""
    n, height, width, channels = call.shapes["y"]
    return {"y": call["x"].reshape(n, channels, height, width).transpose(0, 2, 3, 1)}
