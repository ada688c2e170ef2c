"""Normalisation by statistics of a sample: rows (arXiv 1607.06450), groups (arXiv 1803.08494)."""

from __future__ import annotations

from math import prod

import numpy as np

from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs

__all__ = ["groupnorm_fwd", "groupnorm_grad", "layernorm_fwd", "layernorm_grad"]


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


def _grouped(call: Call, x: Array) -> Array:
    """Return (N, H W, groups, channels of one) of (N, H, W, C)."""
    n, height, width, channels = x.shape
    groups = call.integer("groups")
    return x.reshape(n, height * width, groups, channels // groups)


def _along(statistics: Array) -> Array:
    """Return (N, groups) beside (N, H W, groups, channels of one)."""
    return statistics[:, None, :, None]


def groupnorm_fwd(call: Call) -> Outputs:
    """Normalise every group of channels of a sample by its own statistics."""
    x = _grouped(call, call["x"])
    mean, var = x.mean(axis=(1, 3)), x.var(axis=(1, 3))
    invstd = 1.0 / np.sqrt(var + call.number("eps"))
    normal = ((x - _along(mean)) * _along(invstd)).reshape(call["x"].shape)
    return {
        "y": normal * call.get("gamma", 1.0) + call.get("beta", 0.0),
        "group_mean": mean,
        "group_invstd": invstd,
    }


def groupnorm_grad(call: Call) -> Outputs:
    """Gradient through the statistics of every group."""
    shape, dy = call["x"].shape, call["dy"]
    invstd = _along(call["group_invstd"])
    normal = (_grouped(call, call["x"]) - _along(call["group_mean"])) * invstd
    scaled = _grouped(call, dy * call.get("gamma", 1.0))
    count = prod(normal.shape[1::2])
    mean = _along(scaled.sum(axis=(1, 3))) / count
    dot = _along((scaled * normal).sum(axis=(1, 3))) / count
    return {
        "dx": ((scaled - mean - normal * dot) * invstd).reshape(shape),
        "dgamma": (dy * normal.reshape(shape)).sum(axis=(0, 1, 2)),
        "dbeta": dy.sum(axis=(0, 1, 2)),
    }
