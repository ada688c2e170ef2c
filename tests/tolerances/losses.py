"""Losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from armtrain.ir.ops import OpCode
from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs
from armtrain.runtime.reference.loss import by_rows
from armtrain.runtime.reference.table import FUNCTIONS
from tests.tolerances.model import FUNCTION_ULPS, Bound, U, gamma

__all__ = ["BOUNDS"]


def _softmax(call: Call) -> tuple[Array, Array, Array]:
    """Return softmax, relative error of the rows' sums, and of every exponential."""
    shifted = call["logits"] - call["logits"].max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=1, keepdims=True)
    d_exponential = (np.abs(shifted) + 2 * FUNCTION_ULPS) * U
    d_sum = (exponentials * d_exponential).sum(axis=1, keepdims=True) / sums
    return exponentials / sums, d_sum + gamma(exponentials.shape[1]), d_exponential


def _cross_entropy(call: Call, exact: Outputs) -> Outputs:
    """Relative errors of the exponentials and their sum; the loss is log(sum) - shifted."""
    probabilities, d_sum, d_exponential = _softmax(call)
    logits = call["logits"]
    n, rows = len(logits), np.arange(len(logits))
    shifted = np.abs(logits - logits.max(axis=1, keepdims=True))
    at_target = shifted[rows, call["target"].astype(int)]
    d_log = (2 * FUNCTION_ULPS + 2) * U * (np.log(logits.shape[1]) + at_target)
    result = {"loss": np.array([(d_sum[:, 0] + d_log).mean() + gamma(n) * exact["loss"][0]])}
    if "dlogits" in exact:
        relative = d_sum + d_exponential + 3 * U
        result["dlogits"] = probabilities * relative / n + 3 * U * np.abs(exact["dlogits"])
    else:
        result["correct"] = np.zeros(1)
    return result


def _mse(call: Call, exact: Outputs) -> Outputs:
    """A sum of squares of rounded differences."""
    result = {"loss": gamma(call["y"].size + 4) * exact["loss"]}
    if "dy" in exact:
        result["dy"] = 4 * U * exact["dy"]
    return result


def _huber(call: Call, exact: Outputs) -> Outputs:
    """The rounded difference moves the loss by at most the slope; then as squares."""
    size, count = np.abs(call["y"] - call["target"]), call["y"].size
    moved = call.number("scale") * U * size.mean()
    result = {"loss": np.array([moved]) + gamma(count + 4) * exact["loss"]}
    if "dy" in exact:
        result["dy"] = 4 * U * exact["dy"]
    return result


def _kl_div(call: Call, exact: Outputs) -> Outputs:
    """A sum in double of terms that may cancel; the exponential of log targets is a float."""
    target, y = call["target"], call["y"]
    over = len(y) if call.integer("batchmean") else y.size
    if call.integer("log_target"):
        relative, terms = (np.abs(target) + 2 * FUNCTION_ULPS) * U, np.exp(target)
        loss = (terms * np.abs(target - y) * relative).sum() / over
    else:
        relative, loss = 0.0 * target, 0.0
        terms = target * np.abs(np.log(target, out=np.zeros_like(target), where=target != 0.0) - y)
    result = {"loss": np.array([loss + U * U * y.size * np.abs(terms).sum() / over])}
    if "dy" in exact:
        result["dy"] = (relative + 2 * U) * exact["dy"]
    return result


def _bce(call: Call, exact: Outputs) -> Outputs:
    """Two functions of few ulp each and some products; nothing cancels inside an element's loss."""
    steps = (4 * FUNCTION_ULPS + 8) * U
    result = {"loss": (steps + gamma(4)) * exact["loss"]}
    if "dy" in exact:
        y, target, weights = call["y"], call["target"], call.many("pos_weight")
        yes, no = np.exp(-np.logaddexp(0.0, -y)), np.exp(-np.logaddexp(0.0, y))
        size = (1.0 - target) * yes + (weights if weights.size else 1.0) * target * no
        result["dy"] = steps * size / y.size
    return result


def _label_loss(call: Call, exact: Outputs) -> Outputs:
    """As cross-entropy, row by row with the shares that the reference gives."""
    softmax = "smoothing" in call.attrs
    plain = replace(call, values={"logits": call["y"]})
    probabilities, d_sum, d_exponential = _softmax(plain)
    grad = OpCode.WEIGHTED_CROSS_ENTROPY_GRAD if softmax else OpCode.NLL_GRAD
    shares = np.abs(FUNCTIONS[OpCode.NLL_GRAD](call)["dy"])
    if softmax:
        full = FUNCTIONS[grad](call)["dy"]
        shares = np.abs(full) + probabilities * shares.sum(axis=1, keepdims=True)
    gaps = np.abs(call["y"] - call["y"].max(axis=1, keepdims=True)) if softmax else 0.0 * call["y"]
    whole = probabilities * shares.sum(axis=1, keepdims=True)
    d_log = d_sum + (2 * FUNCTION_ULPS + 2) * U * (np.log(call["y"].shape[1]) + gaps)
    loss = (shares * d_log).sum() if softmax else 0.0
    result = {"loss": np.array([loss]) + gamma(4) * np.abs(exact["loss"])}
    if "dy" in exact:
        result["dy"] = whole * (d_sum + d_exponential + 3 * U) + 4 * U * (shares + whole)
    else:
        result["correct"] = np.zeros(1)
    return result


def _soft_cross_entropy(call: Call, exact: Outputs) -> Outputs:
    """Exponentials and their sum are floats, the rest is double; a gradient is rounded once."""
    y, target, smoothing = call["y"], call["target"], call.number("smoothing")
    probabilities, d_sum, d_exponential = _softmax(replace(call, values={"logits": y}))
    weights = call.many("weight") if "weight[0]" in call.attrs else np.ones(y.shape[1])
    shares = weights * ((1.0 - smoothing) * target + smoothing / y.shape[1]) / len(y)
    whole = shares.sum(axis=1, keepdims=True)
    result = {"loss": np.array([(whole * d_sum).sum()]) + U * np.abs(exact["loss"])}
    if "dy" in exact:
        relative = d_sum + d_exponential + U
        result["dy"] = probabilities * whole * relative + 2 * U * np.abs(exact["dy"])
    return result


def _places_cross_entropy(call: Call, exact: Outputs) -> Outputs:
    """As of samples, each place a row."""
    bound = _label_loss(by_rows(call), exact)
    return {name: bound[name].reshape(value.shape) for name, value in exact.items()}


def _cosine_embedding(call: Call, exact: Outputs) -> Outputs:
    """Sums in double of what is exact but for a rounding in double; a slope is rounded once."""
    terms = 1.0 + np.abs(call["y"]) + abs(call.number("margin"))
    result = {"loss": np.array([U * U * call["y"].size * terms.mean()])}
    return result | {"dy": U * np.abs(exact["dy"])} if "dy" in exact else result


BOUNDS: dict[OpCode, Bound] = {
    OpCode.CROSS_ENTROPY_GRAD: _cross_entropy,
    OpCode.CROSS_ENTROPY_EVAL: _cross_entropy,
    OpCode.MSE_GRAD: _mse,
    OpCode.MSE_EVAL: _mse,
    OpCode.HUBER_GRAD: _huber,
    OpCode.HUBER_EVAL: _huber,
    OpCode.KL_DIV_GRAD: _kl_div,
    OpCode.KL_DIV_EVAL: _kl_div,
    OpCode.BCE_WITH_LOGITS_GRAD: _bce,
    OpCode.BCE_WITH_LOGITS_EVAL: _bce,
    OpCode.WEIGHTED_CROSS_ENTROPY_GRAD: _label_loss,
    OpCode.WEIGHTED_CROSS_ENTROPY_EVAL: _label_loss,
    OpCode.NLL_GRAD: _label_loss,
    OpCode.NLL_EVAL: _label_loss,
    OpCode.PLACES_CROSS_ENTROPY_GRAD: _places_cross_entropy,
    OpCode.PLACES_CROSS_ENTROPY_EVAL: _places_cross_entropy,
    OpCode.SOFT_CROSS_ENTROPY_GRAD: _soft_cross_entropy,
    OpCode.SOFT_CROSS_ENTROPY_EVAL: _soft_cross_entropy,
    OpCode.COSINE_EMBEDDING_GRAD: _cosine_embedding,
    OpCode.COSINE_EMBEDDING_EVAL: _cosine_embedding,
}
