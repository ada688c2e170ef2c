"""Activations in double: formulas of the catalogue, in the forms that lose no digits."""

from __future__ import annotations

from math import erfc, pi, sqrt

import numpy as np

from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs

__all__ = [
    "elu_fwd",
    "elu_grad",
    "gelu_argument",
    "gelu_fwd",
    "gelu_grad",
    "gelu_tanh_fwd",
    "gelu_tanh_grad",
    "hardsigmoid_fwd",
    "hardsigmoid_grad",
    "hardswish_fwd",
    "hardswish_grad",
    "leaky_relu_fwd",
    "leaky_relu_grad",
    "logistic",
    "mish_fwd",
    "mish_grad",
    "normal",
    "relu6_fwd",
    "relu6_grad",
    "sigmoid_fwd",
    "sigmoid_grad",
    "silu_fwd",
    "silu_grad",
    "softplus_fwd",
    "softplus_grad",
]


def logistic(x: Array) -> Array:
    """Return 1 / (1 + e^-x) to full relative accuracy."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


def normal(x: Array) -> Array:
    """Return the distribution function of the normal distribution."""
    values = [0.5 * erfc(-v / sqrt(2.0)) for v in np.ravel(x).tolist()]
    return np.array(values).reshape(np.shape(x))


def sigmoid_fwd(call: Call) -> Outputs:
    """Y = 1 / (1 + e^-x)."""
    return {"y": logistic(call["x"])}


def sigmoid_grad(call: Call) -> Outputs:
    """Dx = dy y (1 - y)."""
    y = call["y"]
    return {"dx": call["dy"] * y * (1.0 - y)}


def relu6_fwd(call: Call) -> Outputs:
    """Y = min(max(x, 0), 6); NaN stays NaN."""
    return {"y": np.clip(call["x"], 0.0, 6.0)}


def relu6_grad(call: Call) -> Outputs:
    """Dx = dy between the bends."""
    y = call["y"]
    return {"dx": np.where((y > 0) & (y < 6), call["dy"], 0.0)}


def leaky_relu_fwd(call: Call) -> Outputs:
    """Y = x above 0, slope x elsewhere."""
    x = call["x"]
    return {"y": np.where(x > 0, x, call.number("slope") * x)}


def leaky_relu_grad(call: Call) -> Outputs:
    """Dx = dy where y > 0, slope dy elsewhere."""
    dy = call["dy"]
    return {"dx": np.where(call["y"] > 0, dy, call.number("slope") * dy)}


def elu_fwd(call: Call) -> Outputs:
    """Y = positive x above 0, negative (e^x - 1) elsewhere."""
    x = call["x"]
    below = call.number("negative") * np.expm1(np.minimum(x, 0.0))
    return {"y": np.where(x > 0, call.number("positive") * x, below)}


def elu_grad(call: Call) -> Outputs:
    """Dx = dy (y + negative) up to 0, positive dy above."""
    y, dy = call["y"], call["dy"]
    below = dy * (y + call.number("negative"))
    return {"dx": np.where(y <= 0, below, call.number("positive") * dy)}


def silu_fwd(call: Call) -> Outputs:
    """Y = x s."""
    return {"y": call["x"] * logistic(call["x"])}


def silu_grad(call: Call) -> Outputs:
    """Dx = dy s (1 + x (1 - s))."""
    x = call["x"]
    return {"dx": call["dy"] * logistic(x) * (1.0 + x * logistic(-x))}


def hardswish_fwd(call: Call) -> Outputs:
    """Y = x min(max(x + 3, 0), 6) / 6."""
    return {"y": call["x"] * np.clip(call["x"] + 3.0, 0.0, 6.0) / 6.0}


def hardswish_grad(call: Call) -> Outputs:
    """Dx = 0 up to -3, dy from 3 on, dy (x / 3 + 1 / 2) between."""
    x, dy = call["x"], call["dy"]
    return {"dx": np.where(x <= -3, 0.0, np.where(x < 3, dy * (x / 3.0 + 0.5), dy))}


def hardsigmoid_fwd(call: Call) -> Outputs:
    """Y = min(max(x + 3, 0), 6) / 6."""
    return {"y": np.clip(call["x"] + 3.0, 0.0, 6.0) / 6.0}


def hardsigmoid_grad(call: Call) -> Outputs:
    """Dx = dy / 6 between the bends."""
    y = call["y"]
    return {"dx": np.where((y > 0) & (y < 1), call["dy"] / 6.0, 0.0)}


def gelu_fwd(call: Call) -> Outputs:
    """Y = x P(x), P the normal distribution function."""
    return {"y": call["x"] * normal(call["x"])}


def gelu_grad(call: Call) -> Outputs:
    """Dx = dy (P(x) + x P'(x))."""
    x = call["x"]
    return {"dx": call["dy"] * (normal(x) + x * np.exp(-x * x / 2.0) / sqrt(2.0 * pi))}


def gelu_argument(x: Array) -> tuple[Array, Array]:
    """Return v = sqrt(8 / pi) (x + 0.044715 x^3) and its derivative."""
    scale, square = sqrt(8.0 / pi), 0.044715 * x * x
    return scale * x * (1.0 + square), scale * (1.0 + 3.0 * square)


def gelu_tanh_fwd(call: Call) -> Outputs:
    """Y = x (1 + tanh(v / 2)) / 2."""
    return {"y": call["x"] * logistic(gelu_argument(call["x"])[0])}


def gelu_tanh_grad(call: Call) -> Outputs:
    """Dx = dy s (1 + x v' (1 - s)) with the logistic function s of v."""
    x = call["x"]
    v, rise = gelu_argument(x)
    return {"dx": call["dy"] * logistic(v) * (1.0 + x * rise * logistic(-v))}


def mish_fwd(call: Call) -> Outputs:
    """Y = x tanh(log(1 + e^x))."""
    return {"y": call["x"] * np.tanh(np.logaddexp(0.0, call["x"]))}


def mish_grad(call: Call) -> Outputs:
    """Dx = dy (t + x (1 - t^2) s) with the logistic function s of x."""
    x = call["x"]
    t = np.tanh(np.logaddexp(0.0, x))
    return {"dx": call["dy"] * (t + x * (1.0 - t * t) * logistic(x))}


def softplus_fwd(call: Call) -> Outputs:
    """Y = log(1 + e^(beta x)) / beta, x beyond the threshold."""
    x, beta = call["x"], call.number("beta")
    smooth = np.logaddexp(0.0, beta * x) / beta
    return {"y": np.where(beta * x > call.number("threshold"), x, smooth)}


def softplus_grad(call: Call) -> Outputs:
    """Dx = dy times the logistic function of beta x, dy beyond the threshold."""
    z = call.number("beta") * call["x"]
    return {"dx": call["dy"] * np.where(z > call.number("threshold"), 1.0, logistic(z))}
