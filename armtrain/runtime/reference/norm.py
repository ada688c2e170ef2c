"""Batch normalisation (Ioffe and Szegedy, arXiv 1502.03167) over (N, H, W) of channels-last x."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from armtrain.errors import ShapeError
from armtrain.ir.arithmetic import Rectifier
from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs

__all__ = [
    "batchnorm2d_apply",
    "batchnorm2d_eval",
    "batchnorm2d_eval_grad",
    "batchnorm2d_fwd",
    "batchnorm2d_grad",
]

_OVER = (0, 1, 2)


def batchnorm2d_fwd(call: Call) -> Outputs:
    """Normalise by the batch's own mean and variance and move the running ones towards them."""
    x, momentum = call["x"], call.number("momentum")
    count = x.size // x.shape[-1]
    if count < 2:
        raise ShapeError("batch normalisation of one value per channel has no variance")
    mean, var = x.mean(axis=_OVER), x.var(axis=_OVER)
    invstd = 1.0 / np.sqrt(var + call.number("eps"))
    unbiased = var * count / (count - 1)
    return {
        "y": (x - mean) * invstd * call.get("gamma", 1.0) + call.get("beta", 0.0),
        "save_mean": mean,
        "save_invstd": invstd,
        "mean": np.asarray((1 - momentum) * call.get("mean", 0.0) + momentum * mean),
        "var": np.asarray((1 - momentum) * call.get("var", 0.0) + momentum * unbiased),
    }


def _frozen_invstd(call: Call) -> Array:
    """Return 1 / sqrt(running variance + eps)."""
    return np.asarray(1.0 / np.sqrt(call["var"] + call.number("eps")))


def batchnorm2d_eval(call: Call) -> Outputs:
    """Normalise by the running statistics."""
    normal = (call["x"] - call["mean"]) * _frozen_invstd(call)
    return {"y": normal * call.get("gamma", 1.0) + call.get("beta", 0.0)}


_RECTIFIERS: dict[Rectifier, Callable[[Array], Array]] = {
    Rectifier.NONE: lambda y: y,
    Rectifier.RELU: lambda y: np.maximum(y, 0.0),
    Rectifier.RELU6: lambda y: np.clip(y, 0.0, 6.0),
}


def batchnorm2d_apply(call: Call) -> Outputs:
    """Normalise by statistics that the forward step saved, and rectify."""
    normal = (call["x"] - call["save_mean"]) * call["save_invstd"]
    y = normal * call.get("gamma", 1.0) + call.get("beta", 0.0)
    return {"y": _RECTIFIERS[Rectifier(call.integer("rectifier"))](y)}


def batchnorm2d_grad(call: Call) -> Outputs:
    """Gradient through the batch's own statistics."""
    dy, invstd = call["dy"], call["save_invstd"]
    normal = (call["x"] - call["save_mean"]) * invstd
    through = dy - dy.mean(axis=_OVER) - normal * (dy * normal).mean(axis=_OVER)
    return {
        "dx": through * invstd * call.get("gamma", 1.0),
        "dgamma": (dy * normal).sum(axis=_OVER),
        "dbeta": dy.sum(axis=_OVER),
    }


def batchnorm2d_eval_grad(call: Call) -> Outputs:
    """Gradient of an affine map: the statistics are constants."""
    dy, invstd = call["dy"], _frozen_invstd(call)
    outputs = {"dx": dy * invstd * call.get("gamma", 1.0), "dbeta": dy.sum(axis=_OVER)}
    if "dgamma" in call.shapes:
        outputs["dgamma"] = (dy * (call["x"] - call["mean"]) * invstd).sum(axis=_OVER)
    return outputs
