"""Optimiser steps and gradient clipping, as torch.optim and clip_grad_norm_ define them."""

from __future__ import annotations

import numpy as np

from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs

__all__ = [
    "adagrad_step",
    "adam_step",
    "adamw_step",
    "clip_scale",
    "clip_value",
    "grad_sumsq",
    "rmsprop_step",
    "sgd_step",
]


def grad_sumsq(call: Call) -> Outputs:
    """acc[index] = sum of the gradient's squares."""
    acc = call["acc"].copy()
    acc[call.integer("index")] = (call["g"] ** 2).sum()
    return {"acc": acc}


def clip_scale(call: Call) -> Outputs:
    """Scale = min(1, max_norm / (norm + 1e-6))."""
    norm = np.sqrt(call["acc"].sum())
    return {"scale": np.array([np.minimum(1.0, call.number("max_norm") / (norm + 1e-6))])}


def clip_value(call: Call) -> Outputs:
    """G = g within [-limit, limit], as torch's clip_grad_value_."""
    limit = call.number("limit")
    return {"g": np.clip(call["g"], -limit, limit)}


def sgd_step(call: Call) -> Outputs:
    """torch.optim.SGD; the buffer of the very first step is the gradient."""
    w, momentum = call["w"], call.number("momentum")
    g = _decayed(call)
    outputs: Outputs = {}
    if "momentum" in call.shapes:
        buffer = g
        if call.step > 0:
            buffer = momentum * call["momentum"] + (1.0 - call.number("dampening")) * g
        outputs["momentum"] = buffer
        g = g + momentum * buffer if call.integer("nesterov") else buffer
    outputs["w"] = w - call.number("lr") * call.learning_rate_scale * g
    return outputs


def adam_step(call: Call) -> Outputs:
    """torch.optim.Adam (Kingma and Ba, arXiv 1412.6980, with torch's place of eps)."""
    return _adam(call, call["w"], _decayed(call))


def adamw_step(call: Call) -> Outputs:
    """torch.optim.AdamW (Loshchilov and Hutter, arXiv 1711.05101)."""
    lr = call.number("lr") * call.learning_rate_scale
    w = call["w"] * (1.0 - lr * call.number("weight_decay"))
    return _adam(call, w, call["g"] * call.get("scale", 1.0))


def _decayed(call: Call) -> Array:
    """Return the gradient with the share of the weight that decay adds to it."""
    return call["g"] * call.get("scale", 1.0) + call.number("weight_decay") * call["w"]


def _adam(call: Call, w: Array, g: Array) -> Outputs:
    """Return moments and weight after a step from `w` along the moments of `g`."""
    beta1, beta2 = call.number("beta1"), call.number("beta2")
    m = beta1 * call["m"] + (1.0 - beta1) * g
    v = beta2 * call["v"] + (1.0 - beta2) * g**2
    t = call.step + 1
    root = np.sqrt(v) / np.sqrt(1.0 - beta2**t) + call.number("eps")
    rate = call.number("lr") * call.learning_rate_scale / (1.0 - beta1**t)
    return {"w": w - rate * m / root, "m": m, "v": v}


def rmsprop_step(call: Call) -> Outputs:
    """torch.optim.RMSprop; a variance below 0 counts as 0."""
    alpha, g = call.number("alpha"), _decayed(call)
    square = alpha * call["square_avg"] + (1.0 - alpha) * g**2
    outputs: Outputs = {"square_avg": square}
    if "grad_avg" in call.shapes:
        mean = alpha * call["grad_avg"] + (1.0 - alpha) * g
        outputs["grad_avg"] = mean
        square = np.maximum(square - mean**2, 0.0)
    step = g / (np.sqrt(square) + call.number("eps"))
    if "momentum" in call.shapes:
        step = call.number("momentum") * call["momentum"] + step
        outputs["momentum"] = step
    outputs["w"] = call["w"] - call.number("lr") * call.learning_rate_scale * step
    return outputs


def adagrad_step(call: Call) -> Outputs:
    """torch.optim.Adagrad."""
    g = _decayed(call)
    total = call["sum"] + g**2
    rate = call.number("lr") * call.learning_rate_scale
    rate /= 1.0 + call.step * call.number("lr_decay")
    return {"w": call["w"] - rate * g / (np.sqrt(total) + call.number("eps")), "sum": total}
