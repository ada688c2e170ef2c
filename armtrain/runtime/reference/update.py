"""Optimiser steps and gradient clipping, as torch.optim and clip_grad_norm_ define them."""

from __future__ import annotations

import numpy as np

from armtrain.runtime.reference.call import Call, Outputs

__all__ = ["adam_step", "clip_scale", "grad_sumsq", "sgd_step"]


def grad_sumsq(call: Call) -> Outputs:
    """acc[index] = sum of the gradient's squares."""
    acc = call["acc"].copy()
    acc[call.integer("index")] = (call["g"] ** 2).sum()
    return {"acc": acc}


def clip_scale(call: Call) -> Outputs:
    """Scale = min(1, max_norm / (norm + 1e-6))."""
    norm = np.sqrt(call["acc"].sum())
    return {"scale": np.array([np.minimum(1.0, call.number("max_norm") / (norm + 1e-6))])}


def sgd_step(call: Call) -> Outputs:
    """torch.optim.SGD; the buffer of the very first step is the gradient."""
    w, momentum = call["w"], call.number("momentum")
    g = call["g"] * call.get("scale", 1.0) + call.number("weight_decay") * w
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
    beta1, beta2 = call.number("beta1"), call.number("beta2")
    g = call["g"] * call.get("scale", 1.0) + call.number("weight_decay") * call["w"]
    m = beta1 * call["m"] + (1.0 - beta1) * g
    v = beta2 * call["v"] + (1.0 - beta2) * g**2
    t = call.step + 1
    root = np.sqrt(v) / np.sqrt(1.0 - beta2**t) + call.number("eps")
    rate = call.number("lr") * call.learning_rate_scale / (1.0 - beta1**t)
    return {"w": call["w"] - rate * m / root, "m": m, "v": v}
