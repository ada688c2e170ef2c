"""Losses with their gradients, both over the actual batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from armtrain.limits import NO_LABEL
from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs

__all__ = [
    "bce_with_logits_eval",
    "bce_with_logits_grad",
    "cosine_embedding_eval",
    "cosine_embedding_grad",
    "cross_entropy_eval",
    "cross_entropy_grad",
    "huber_eval",
    "huber_grad",
    "kl_div_eval",
    "kl_div_grad",
    "mse_eval",
    "mse_grad",
    "nll_eval",
    "nll_grad",
    "places_cross_entropy_eval",
    "places_cross_entropy_grad",
    "soft_cross_entropy_eval",
    "soft_cross_entropy_grad",
    "weighted_cross_entropy_eval",
    "weighted_cross_entropy_grad",
]


def _log_softmax(logits: Array) -> Array:
    """Return log softmax of every row."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def _counted(call: Call) -> NDArray[np.bool_]:
    """Return which rows count: the label of others need not be a class."""
    ignored = call.integer("ignore_index") if "ignore_index" in call.attrs else NO_LABEL
    return np.asarray(call["target"] != ignored)


def _labels(call: Call) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (row numbers, labels) as integer index arrays, 0 for rows that do not count."""
    labels = np.where(_counted(call), call["target"], 0).astype(np.int64)
    return np.arange(labels.size, dtype=np.int64), labels


def _cross_entropy(call: Call) -> Array:
    """Return the loss of shape (1,)."""
    return np.array([-_log_softmax(call["logits"])[_labels(call)][_counted(call)].mean()])


def cross_entropy_grad(call: Call) -> Outputs:
    """Loss = -mean log softmax[target]; dlogits = (softmax - one-hot) / N."""
    probabilities = np.exp(_log_softmax(call["logits"]))
    probabilities[_labels(call)] -= 1.0
    counted = _counted(call)
    gradient = probabilities * counted[:, np.newaxis] / counted.sum()
    return {"loss": _cross_entropy(call), "dlogits": gradient}


def cross_entropy_eval(call: Call) -> Outputs:
    """loss, and correct: how many rows have their first maximum at the target."""
    right = call["logits"].argmax(axis=1) == call["target"]
    return {"loss": _cross_entropy(call), "correct": np.array([float(right.sum())])}


def mse_grad(call: Call) -> Outputs:
    """Loss = mean (y - target)^2 over all elements; dy = 2 (y - target) / elements."""
    difference = call["y"] - call["target"]
    return {**mse_eval(call), "dy": 2.0 * difference / difference.size}


def mse_eval(call: Call) -> Outputs:
    """Loss = mean (y - target)^2 over all elements."""
    return {"loss": np.array([((call["y"] - call["target"]) ** 2).mean()])}


def huber_grad(call: Call) -> Outputs:
    """Gradient scale / elements times d / bound, clipped to [-1, 1]; the sign where bound is 0."""
    difference, bound = call["y"] - call["target"], call.number("bound")
    inside = np.abs(difference) < bound
    slope = np.where(inside, difference / (bound or 1.0), np.sign(difference))
    return {**huber_eval(call), "dy": call.number("scale") * slope / slope.size}


def huber_eval(call: Call) -> Outputs:
    """Loss = scale mean of (d^2 / (2 bound) where |d| < bound, else |d| - bound / 2)."""
    size, bound = np.abs(call["y"] - call["target"]), call.number("bound")
    parabola = size**2 / (2.0 * (bound or 1.0))
    values = np.where(size < bound, parabola, size - bound / 2.0)
    return {"loss": np.array([call.number("scale") * values.mean()])}


def _kl_div(call: Call) -> tuple[Array, Array, float]:
    """Return t, t log t, and what the sum is divided by."""
    target = call["target"]
    over = float(len(target) if call.integer("batchmean") else target.size)
    if call.integer("log_target"):
        return np.exp(target), np.exp(target) * target, over
    logarithms = np.log(target, out=np.zeros_like(target), where=target != 0.0)
    return target, target * logarithms, over


def kl_div_grad(call: Call) -> Outputs:
    """Gradient -t over elements, or over samples."""
    target, _, over = _kl_div(call)
    return {**kl_div_eval(call), "dy": -target / over}


def kl_div_eval(call: Call) -> Outputs:
    """Loss = sum t (log t - y) over elements, or over samples."""
    target, entropy, over = _kl_div(call)
    return {"loss": np.array([(entropy - target * call["y"]).sum() / over])}


def _pos_weight(call: Call) -> Array | float:
    """Return the factor of positive targets: one, or one for each column."""
    weights = call.many("pos_weight")
    return weights if weights.size else 1.0


def bce_with_logits_grad(call: Call) -> Outputs:
    """Gradient ((1 - t) sigmoid(y) - p t sigmoid(-y)) / elements."""
    y, target = call["y"], call["target"]
    yes, no = np.exp(-np.logaddexp(0.0, -y)), np.exp(-np.logaddexp(0.0, y))
    slope = (1.0 - target) * yes - _pos_weight(call) * target * no
    return {**bce_with_logits_eval(call), "dy": slope / y.size}


def bce_with_logits_eval(call: Call) -> Outputs:
    """Loss = mean of (1 - t) softplus(y) + p t softplus(-y)."""
    y, target = call["y"], call["target"]
    up, down = np.logaddexp(0.0, y), np.logaddexp(0.0, -y)
    return {"loss": np.array([((1.0 - target) * up + _pos_weight(call) * target * down).mean()])}


def _label_loss(call: Call, logarithms: Array, smoothing: float) -> tuple[Array, Array]:
    """Return the loss, and what every log-probability counts in it (N, classes)."""
    classes = logarithms.shape[1]
    weights = call.many("weight") if "weight[0]" in call.attrs else np.ones(classes)
    shares = np.full_like(logarithms, smoothing / classes)
    shares[_labels(call)] += 1.0 - smoothing
    counted = _counted(call)
    shares = shares * weights * counted[:, np.newaxis]
    over = (weights[_labels(call)[1]] * counted).sum()
    return np.array([-(shares * logarithms).sum() / over]), shares / over


def _right(call: Call) -> Array:
    """Return how many counted rows have their first maximum at the target."""
    return np.array([float((_counted(call) & (call["y"].argmax(axis=1) == call["target"])).sum())])


def weighted_cross_entropy_grad(call: Call) -> Outputs:
    """Gradient softmax times the row's share of the loss, minus the shares."""
    logarithms = _log_softmax(call["y"])
    loss, shares = _label_loss(call, logarithms, call.number("smoothing"))
    return {"loss": loss, "dy": np.exp(logarithms) * shares.sum(axis=1, keepdims=True) - shares}


def weighted_cross_entropy_eval(call: Call) -> Outputs:
    """Loss, and correct: how many counted rows have their first maximum at the target."""
    loss, _ = _label_loss(call, _log_softmax(call["y"]), call.number("smoothing"))
    return {"loss": loss, "correct": _right(call)}


def nll_grad(call: Call) -> Outputs:
    """Gradient minus the target's share of the loss."""
    loss, shares = _label_loss(call, call["y"], 0.0)
    return {"loss": loss, "dy": -shares}


def nll_eval(call: Call) -> Outputs:
    """Loss, and correct: how many counted rows have their first maximum at the target."""
    return {"loss": _label_loss(call, call["y"], 0.0)[0], "correct": _right(call)}


def _soft_shares(call: Call) -> Array:
    """Return what every log-probability counts in the loss (N, classes)."""
    target, smoothing = call["target"], call.number("smoothing")
    weights = call.many("weight") if "weight[0]" in call.attrs else np.ones(target.shape[1])
    blended = (1.0 - smoothing) * target + smoothing / target.shape[1]
    return np.asarray(weights * blended / len(target))


def soft_cross_entropy_grad(call: Call) -> Outputs:
    """Gradient softmax times the row's share of the loss, minus the shares."""
    shares, probabilities = _soft_shares(call), np.exp(_log_softmax(call["y"]))
    whole = shares.sum(axis=1, keepdims=True)
    return {**soft_cross_entropy_eval(call), "dy": probabilities * whole - shares}


def soft_cross_entropy_eval(call: Call) -> Outputs:
    """Loss = -mean over rows of sum w q log softmax, q the targets after smoothing."""
    return {"loss": np.array([-(_soft_shares(call) * _log_softmax(call["y"])).sum()])}


def by_rows(call: Call) -> Call:
    """Return a loss of places as one of samples: each place is a row."""
    y, target = call["y"], call["target"]
    rows = {"y": y.reshape(-1, y.shape[-1]), "target": target.reshape(-1)}
    return replace(call, values=call.values | rows)


def places_cross_entropy_grad(call: Call) -> Outputs:
    """Give every place the gradient of a sample."""
    made = weighted_cross_entropy_grad(by_rows(call))
    return {**made, "dy": made["dy"].reshape(call["y"].shape)}


def places_cross_entropy_eval(call: Call) -> Outputs:
    """Loss alone."""
    return {"loss": weighted_cross_entropy_eval(by_rows(call))["loss"]}


def _gaps(call: Call) -> tuple[Array, Array]:
    """Return how far each cosine is from where it costs nothing, and the slope of that."""
    alike, gap = call["target"] > 0.0, call["y"] - call.number("margin")
    gaps = np.where(alike, 1.0 - call["y"], np.where(gap < 0.0, 0.0, gap))
    return gaps, np.where(alike, -1.0, np.where(gap < 0.0, 0.0, 1.0))


def cosine_embedding_grad(call: Call) -> Outputs:
    """Gradient -1 over elements where the target is 1, else 1 over them from the margin on."""
    return {**cosine_embedding_eval(call), "dy": _gaps(call)[1] / call["y"].size}


def cosine_embedding_eval(call: Call) -> Outputs:
    """Loss = mean of target = 1 ? 1 - y : max(y - margin, 0)."""
    return {"loss": np.array([_gaps(call)[0].mean()])}
