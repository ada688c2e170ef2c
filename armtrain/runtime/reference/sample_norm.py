"""Normalisation by statistics of a row (arXiv 1607.06450)."""

from __future__ import annotations

import numpy as np

from armtrain.runtime.reference.call import Call, Outputs

__all__ = ["layernorm_fwd", "layernorm_grad"]


def layernorm_fwd(call: Call) -> Outputs:
    """Normalise every row by its own statistics."""
    x = call["x"]
    mean = x.mean(-1, keepdims=True) * call.integer("centred")
    square = ((x - mean) ** 2).mean(-1, keepdims=True)
    invstd = 1.0 / np.sqrt(square + call.number("eps"))
    return {
        "y": (x - mean) * invstd * call.get("gamma", 1.0) + call.get("beta", 0.0),
        "row_mean": mean[..., 0],
        "row_invstd": invstd[..., 0],
    }


def layernorm_grad(call: Call) -> Outputs:
    """Gradient through the statistics of every row."""
    dy, invstd = call["dy"], call["row_invstd"][..., None]
    means = call.values.get("row_mean")
    normal = (call["x"] - (0.0 if means is None else means[..., None])) * invstd
    scaled = dy * call.get("gamma", 1.0)
    through = scaled - normal * (scaled * normal).mean(-1, keepdims=True)
    if means is not None:
        through = through - scaled.mean(-1, keepdims=True)
    over = tuple(range(dy.ndim - 1))
    return {
        "dx": through * invstd,
        "dgamma": (dy * normal).sum(axis=over),
        "dbeta": dy.sum(axis=over),
    }
