"""Layers: sums of products, windows, normalisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from armtrain.ir.ops import OpCode
from armtrain.runtime.reference.call import Call, Outputs
from armtrain.runtime.reference.table import FUNCTIONS
from tests.tolerances.model import FUNCTION_ULPS, Bound, U, gamma, roundings

__all__ = ["BOUNDS"]

_CHANNELS = (0, 1, 2)


def _products(terms: Callable[[Call], dict[str, int]]) -> Bound:
    """Return the bound of sums of products: gamma(terms) times the result of absolute inputs."""

    def bound(call: Call, exact: Outputs) -> Outputs:
        absolute = replace(call, values={n: np.abs(v) for n, v in call.values.items()})
        sums = FUNCTIONS[_CODE_OF[bound]](absolute)
        return {n: gamma(k) * sums[n] for n, k in terms(call).items() if n in sums}

    return bound


def _batch_and_places(call: Call) -> int:
    """Return N of a matrix, N P Q of an image gradient."""
    return prod(call["dy"].shape[:-1])


def _window(call: Call) -> int:
    """Return the elements of a pooling window."""
    return prod(call.pair("kernel"))


def _batchnorm_fwd(call: Call, exact: Outputs) -> Outputs:
    """Propagate the errors of the mean and the variance."""
    x, mean, invstd = call["x"], exact["save_mean"], exact["save_invstd"]
    count = x.size // x.shape[-1]
    scale, shift, momentum = call.get("gamma", 1.0), call.get("beta", 0.0), call.number("momentum")
    var = 1.0 / invstd**2 - call.number("eps")
    distance = np.abs(x - mean)
    d_mean = gamma(count + 1) * np.abs(x).mean(axis=_CHANNELS)
    d_var = gamma(count + 3) * var + 2 * d_mean * distance.mean(axis=_CHANNELS) + d_mean**2
    d_invstd = invstd * (d_var * invstd**2 / 2 + 4 * U)
    # The result may be computed as (x - mean) a + b or as x a + b'.
    rounding = 4 * U * (np.abs(x) + np.abs(mean)) * invstd * np.abs(scale)
    d_y = np.abs(scale) * (invstd * d_mean + distance * d_invstd) + rounding
    unbiased = count / (count - 1)
    return {
        "save_mean": d_mean,
        "save_invstd": d_invstd,
        "y": d_y + 2 * U * np.abs(shift),
        "mean": momentum * d_mean
        + 3 * U * (np.abs(call.get("mean", 0.0)) + momentum * np.abs(mean)),
        "var": momentum * unbiased * d_var
        + 4 * U * (np.abs(call.get("var", 0.0)) + momentum * unbiased * var),
    }


def _batchnorm_grad(call: Call, exact: Outputs) -> Outputs:
    """Propagate the errors of the two sums over the batch."""
    x, mean, invstd, dy = call["x"], call["save_mean"], call["save_invstd"], call["dy"]
    count = x.size // x.shape[-1]
    wide = (np.abs(x) + np.abs(mean)) * invstd
    normal = np.abs(x - mean) * invstd
    mean_dy = np.abs(dy).mean(axis=_CHANNELS)
    mean_dy_normal = (np.abs(dy) * normal).mean(axis=_CHANNELS)
    inner = gamma(count + 4) * (mean_dy + normal * mean_dy_normal)
    inner = inner + 6 * U * (np.abs(dy) + mean_dy + wide * mean_dy_normal)
    return {
        "dx": inner * invstd * np.abs(call.get("gamma", 1.0)),
        "dgamma": gamma(count + 4) * count * mean_dy_normal,
        "dbeta": gamma(count) * count * mean_dy,
    }


def _batchnorm_eval(call: Call, exact: Outputs) -> Outputs:
    """Allow the folded form x a + b' as well."""
    invstd = 1.0 / np.sqrt(call["var"] + call.number("eps"))
    wide = (np.abs(call["x"]) + np.abs(call["mean"])) * invstd * np.abs(call.get("gamma", 1.0))
    return {"y": 8 * U * wide + 2 * U * np.abs(call.get("beta", 0.0))}


def _batchnorm_apply(call: Call, exact: Outputs) -> Outputs:
    """Allow the folded form; a rectifier never widens a difference."""
    wide = (np.abs(call["x"]) + np.abs(call["save_mean"])) * call["save_invstd"]
    wide = wide * np.abs(call.get("gamma", 1.0))
    return {"y": 8 * U * wide + 2 * U * np.abs(call.get("beta", 0.0))}


def _batchnorm_eval_grad(call: Call, exact: Outputs) -> Outputs:
    """Sums over the batch of exact statistics."""
    dy = call["dy"]
    count = dy.size // dy.shape[-1]
    total = np.abs(dy).sum(axis=_CHANNELS)
    result = {"dx": 8 * U * exact["dx"], "dbeta": gamma(count) * total}
    if "dgamma" in exact:
        invstd = 1.0 / np.sqrt(call["var"] + call.number("eps"))
        normal = np.abs(call["x"] - call["mean"]) * invstd
        result["dgamma"] = gamma(count + 8) * (np.abs(dy) * normal).sum(axis=_CHANNELS)
    return result


def _conv_terms(call: Call) -> dict[str, int]:
    """Return the products of one output element, and the addition of the bias."""
    return {"y": prod(call["w"].shape[1:4]) + 1}


def _resample_terms(source: str, target: str) -> Callable[[Call], dict[str, int]]:
    """Return the most places that one gets something of, with a weight and a product's rounding.

    A place gets of less than two more than the sides' quotient, and of as many of the smaller
    side's neighbours on both ends.
    """

    def terms(call: Call) -> dict[str, int]:
        sides = zip(call.shapes[source][1:3], call.shapes[target][1:3], strict=True)
        return {target: prod(2 * (of // into + 2) for of, into in sides) + 2}

    return terms


BOUNDS: dict[OpCode, Bound] = {
    OpCode.LINEAR_FWD: _products(lambda call: {"y": call["w"].shape[0] + 1}),
    OpCode.LINEAR_GRAD_W: _products(
        lambda call: dict.fromkeys(("dw", "db"), _batch_and_places(call))
    ),
    OpCode.LINEAR_GRAD_X: _products(lambda call: {"dx": call["w"].shape[1]}),
    OpCode.CONV2D_FWD: _products(_conv_terms),
    OpCode.CONV2D_GRAD_W: _products(
        lambda call: dict.fromkeys(("dw", "db"), _batch_and_places(call))
    ),
    OpCode.CONV2D_GRAD_X: _products(
        lambda call: {"dx": prod(call["w"].shape[1:3]) * call["w"].shape[4]}
    ),
    OpCode.MAXPOOL2D_FWD: roundings(0),
    OpCode.MAXPOOL2D_GRAD: _products(lambda call: {"dx": prod(call.pair("kernel"))}),
    OpCode.AVGPOOL2D_FWD: _products(lambda call: {"y": _window(call) + 2}),
    OpCode.AVGPOOL2D_GRAD: _products(lambda call: {"dx": _window(call) + 2}),
    OpCode.CONV_TRANSPOSE2D_FWD: _products(
        lambda call: {"y": prod(call["w"].shape[1:3]) * call["w"].shape[4] + 1}
    ),
    OpCode.CONV_TRANSPOSE2D_GRAD_W: _products(
        lambda call: {"dw": prod(call["x"].shape[:-1]), "db": _batch_and_places(call)}
    ),
    OpCode.CONV_TRANSPOSE2D_GRAD_X: _products(lambda call: {"dx": prod(call["w"].shape[1:4])}),
    OpCode.ADAPTIVE_AVGPOOL2D_FWD: _products(_resample_terms("x", "y")),
    OpCode.ADAPTIVE_AVGPOOL2D_GRAD: _products(_resample_terms("dy", "dx")),
    OpCode.UPSAMPLE_NEAREST2D_FWD: _products(_resample_terms("x", "y")),
    OpCode.UPSAMPLE_NEAREST2D_GRAD: _products(_resample_terms("dy", "dx")),
    OpCode.UPSAMPLE_BILINEAR2D_FWD: _products(_resample_terms("x", "y")),
    OpCode.UPSAMPLE_BILINEAR2D_GRAD: _products(_resample_terms("dy", "dx")),
    OpCode.BATCHNORM2D_FWD: _batchnorm_fwd,
    OpCode.BATCHNORM2D_EVAL: _batchnorm_eval,
    OpCode.BATCHNORM2D_APPLY: _batchnorm_apply,
    OpCode.BATCHNORM2D_GRAD: _batchnorm_grad,
    OpCode.BATCHNORM2D_EVAL_GRAD: _batchnorm_eval_grad,
    OpCode.RECTIFIER_BITS: roundings(0),
    OpCode.RECTIFIER_BITS_GRAD: roundings(0),
    OpCode.RELU_FWD: roundings(0),
    OpCode.RELU_GRAD: roundings(0),
    OpCode.TANH_FWD: roundings(2 * FUNCTION_ULPS),
    OpCode.TANH_GRAD: lambda call, exact: {"dx": 4 * U * call["dy"]},
    OpCode.DROPOUT_FWD: roundings(2),
    OpCode.DROPOUT_GRAD: roundings(2),
    OpCode.ADD: roundings(1),
    OpCode.COPY: roundings(0),
    OpCode.NHWC_TO_NCHW: roundings(0),
    OpCode.NCHW_TO_NHWC: roundings(0),
    OpCode.PERMUTE: roundings(0),
    OpCode.SLICE: roundings(0),
    OpCode.PLACE: roundings(1),
}
_CODE_OF: dict[Bound, OpCode] = {bound: code for code, bound in BOUNDS.items()}
