"""Optimisers and clipping."""

from __future__ import annotations

import numpy as np

from armtrain.ir.ops import OpCode
from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs
from tests.tolerances.model import Bound, U, gamma, roundings

__all__ = ["BOUNDS"]


def _gradient(call: Call) -> tuple[Array, Array]:
    """Return |g| scale + |weight decay w|, and the error of their sum."""
    size, error = _scaled(call)
    size = size + call.number("weight_decay") * np.abs(call["w"])
    return size, 3 * U * size + error


def _scaled(call: Call) -> tuple[Array, Array | float]:
    """Return |g| scale at most, and the error that g itself has where the step makes it."""
    error = call.get("g_error", 0.0)
    return np.abs(call["g"] * call.get("scale", 1.0)) + error, error


def _sgd(call: Call, exact: Outputs) -> Outputs:
    """Every term is rounded a few times; terms may cancel, so absolute values are added."""
    size, d_g = _gradient(call)
    rate, momentum = call.number("lr") * call.learning_rate_scale, call.number("momentum")
    result: Outputs = {}
    if "momentum" in call.shapes:
        old = momentum * np.abs(call["momentum"]) if call.step > 0 else 0.0
        d_buffer = d_g + 4 * U * (old + size)
        result["momentum"] = d_buffer
        size, d_g = (1 + momentum) * (old + size), (1 + momentum) * d_buffer + d_g
    result["w"] = U * np.abs(exact["w"]) + rate * (d_g + 4 * U * size)
    return result


def _d_root(value: Array, error: Array) -> Array:
    """Return the error of a root: sqrt(v + d) - sqrt(v) <= min(d / (2 sqrt(v)), sqrt(d))."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.fmin(error / (2 * np.sqrt(value)), np.sqrt(error)))


def _adam(call: Call, exact: Outputs) -> Outputs:
    """The quotient m / (sqrt(v) + eps), with the errors of both."""
    return _moments(call, exact, *_gradient(call))


def _adamw(call: Call, exact: Outputs) -> Outputs:
    """The same with two more roundings of the weight, and none of the gradient's decay."""
    size, error = _scaled(call)
    result = _moments(call, exact, size, U * size + error)
    decay = call.number("lr") * call.learning_rate_scale * call.number("weight_decay")
    result["w"] = result["w"] + 3 * U * (1.0 + decay) * np.abs(call["w"])
    return result


def _moments(call: Call, exact: Outputs, size: Array, d_g: Array) -> Outputs:
    """Return Adam's bounds for a gradient of magnitude `size` with the error `d_g`."""
    beta1, beta2, t = call.number("beta1"), call.number("beta2"), call.step + 1
    d_m = 4 * U * (beta1 * np.abs(call["m"]) + (1 - beta1) * size) + (1 - beta1) * d_g
    d_v = 4 * U * exact["v"] + (1 - beta2) * 2 * size * d_g
    correction = 1.0 - beta2**t
    root = np.sqrt(exact["v"] / correction)
    denominator = root + call.number("eps")
    d_root = _d_root(exact["v"], d_v) / np.sqrt(correction)
    rate = call.number("lr") * call.learning_rate_scale / (1.0 - beta1**t)
    quotient = np.abs(exact["m"]) / denominator
    d_quotient = d_m / denominator + quotient * (d_root / denominator + 8 * U)
    return {"w": U * np.abs(exact["w"]) + rate * d_quotient, "m": d_m, "v": d_v}


def _quotient(g: Array, d_g: Array, square: Array, d_square: Array, eps: float) -> Array:
    """Return the error of g / (sqrt(square) + eps): the denominator may be that much smaller."""
    d_root = _d_root(square, d_square) + 3 * U * (np.sqrt(square) + eps)
    below = np.sqrt(square) + eps - d_root
    assert np.all(below > 0.0), "the bound needs denominators above their own error"
    return np.asarray((d_g + np.abs(g) / (np.sqrt(square) + eps) * d_root) / below
                      + 2 * U * np.abs(g) / below)  # fmt: skip


def _rmsprop(call: Call, exact: Outputs) -> Outputs:
    """Means as Adam's; centred, the difference carries the errors of both of its terms."""
    size, d_g = _gradient(call)
    alpha, g = call.number("alpha"), _exact_gradient(call)
    rest = 1.0 - alpha
    square = exact["square_avg"]
    d_square = 4 * U * square + rest * 2 * size * d_g
    result: Outputs = {"square_avg": d_square}
    if "grad_avg" in call.shapes:
        mean = exact["grad_avg"]
        d_mean = 4 * U * (alpha * np.abs(call["grad_avg"]) + rest * size) + rest * d_g
        result["grad_avg"] = d_mean
        d_square = d_square + 2 * np.abs(mean) * d_mean + d_mean**2 + 2 * U * (square + mean**2)
        square = np.maximum(square - mean**2, 0.0)
    step = g / (np.sqrt(square) + call.number("eps"))
    d_step = _quotient(g, d_g, square, d_square, call.number("eps"))
    if "momentum" in call.shapes:
        old = call.number("momentum") * np.abs(call["momentum"])
        d_step = d_step + 3 * U * (old + np.abs(step))
        step = exact["momentum"]
        result["momentum"] = d_step
    rate = call.number("lr") * call.learning_rate_scale
    result["w"] = U * np.abs(exact["w"]) + rate * (d_step + 3 * U * np.abs(step))
    return result


def _adagrad(call: Call, exact: Outputs) -> Outputs:
    """A sum with one more square, and the quotient."""
    size, d_g = _gradient(call)
    total, eps, g = exact["sum"], call.number("eps"), _exact_gradient(call)
    d_total = 3 * U * total + 2 * size * d_g
    rate = call.number("lr") * call.learning_rate_scale
    rate /= 1.0 + call.step * call.number("lr_decay")
    d_step = _quotient(g, d_g, total, d_total, eps) + 3 * U * np.abs(g) / (np.sqrt(total) + eps)
    return {"w": U * np.abs(exact["w"]) + rate * d_step, "sum": d_total}


def _exact_gradient(call: Call) -> Array:
    """Return the gradient with weight decay."""
    g = call["g"] * call.get("scale", 1.0) + call.number("weight_decay") * call["w"]
    return np.asarray(g)


BOUNDS: dict[OpCode, Bound] = {
    OpCode.GRAD_SUMSQ: lambda call, exact: {"acc": gamma(call["g"].size + 1) * exact["acc"]},
    OpCode.CLIP_SCALE: roundings(4),
    OpCode.CLIP_VALUE: roundings(1),
    OpCode.SGD_STEP: _sgd,
    OpCode.ADAM_STEP: _adam,
    OpCode.ADAMW_STEP: _adamw,
    OpCode.RMSPROP_STEP: _rmsprop,
    OpCode.ADAGRAD_STEP: _adagrad,
}
