"""How far a float32 result may be from the double one: first-order error bounds by formula.

Standard model: fl(a op b) = (a op b)(1 + d), |d| <= U. A sum of k products, in any order and
with or without fused operations, is off by at most gamma(k) times the sum of the absolute
products (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 3.1). What
is not in the formulas, second-order terms and results below the smallest normal number, is
covered by SECOND_ORDER and TINY. No constant here was fitted to a measurement.

`bounds(op, call, exact)` returns per output the largest absolute error that each element may
have, given the same float32 inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from armtrain.ir.ops import OpCode
from armtrain.runtime.reference.activation import gelu_argument, logistic, normal
from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs
from armtrain.runtime.reference.table import FUNCTIONS

__all__ = ["FUNCTION_ULPS", "U", "bounds", "gamma"]

U = 2.0**-24
"""Unit roundoff of float32."""
FUNCTION_ULPS = 2
"""Units in the last place that our own exp, log and tanh may be off."""
SECOND_ORDER = 1.01
TINY = 2.0**-126
_CHANNELS = (0, 1, 2)

Bound = Callable[[Call, Outputs], Outputs]


def gamma(k: float) -> float:
    """Return k U / (1 - k U), the error factor of k roundings in a row."""
    return k * U / (1 - k * U)


def bounds(op: OpCode, call: Call, exact: Outputs) -> Outputs:
    """Return the error bound of every output of one operation."""
    raw = _BOUNDS[op](call, exact)
    return {name: SECOND_ORDER * np.abs(value) + TINY for name, value in raw.items()}


def _roundings(count: float) -> Bound:
    """Return the bound of results that are rounded `count` times without any cancellation."""
    return lambda call, exact: {n: count * U * np.abs(v) for n, v in exact.items()}


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


def _gradient(call: Call) -> tuple[Array, Array]:
    """Return |g| scale + |weight decay w|, and the error of their sum."""
    size = np.abs(call["g"] * call.get("scale", 1.0))
    size = size + call.number("weight_decay") * np.abs(call["w"])
    return size, 3 * U * size


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
    size = np.abs(call["g"] * call.get("scale", 1.0))
    result = _moments(call, exact, size, U * size)
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


def _conv_terms(call: Call) -> dict[str, int]:
    """Return the products of one output element, and the addition of the bias."""
    return {"y": prod(call["w"].shape[1:4]) + 1}


# Activations, in roundings: of the functions of kernels/core/math.h (one unit in the last place is
# two roundings at most), of the logistic function, of mish's quotient and of GELU's argument.
_EXP, _EXPM1, _LOG1P, _ERF = 2.2, 2.4, 4.4, 2.8
_LOGISTIC, _QUOTIENT, _ARGUMENT = _EXP + 3, 2 * _EXP + 5, 8


def _per_element(output: str, roundings: Callable[[Call, Array], Array]) -> Bound:
    """Return the bound of a function of one element; exponentials may vanish in it."""

    def bound(call: Call, exact: Outputs) -> Outputs:
        factors = [1.0 + np.abs(v) for v in call.values.values()]
        vanished = TINY * np.prod(np.broadcast_arrays(*factors), axis=0)
        return {output: U * np.abs(roundings(call, exact[output])) + vanished}

    return bound


def _elu_grad(call: Call, exact: Array) -> Array:
    """Two roundings, and that of `negative` before it meets y."""
    return 2 * np.abs(exact) + np.abs(call["dy"]) * call.number("negative")


def _silu_grad(call: Call, exact: Array) -> Array:
    """Sum of s and x s (1 - s)."""
    s, other = logistic(call["x"]), np.abs(call["x"]) * logistic(-call["x"])
    return np.abs(call["dy"]) * s * (_LOGISTIC + 3 + other * (2 * _LOGISTIC + 4))


def _hardswish_grad(call: Call, exact: Array) -> Array:
    """The quotient, the sum, the product."""
    third = call["x"] / 3
    inside = np.abs(call["dy"]) * (np.abs(third) + 2 * np.abs(third + 0.5))
    return np.where(np.abs(third) < 1, inside, 0.0)


def _normal(x: Array) -> Array:
    """Twice the distribution function, 1 + erf t; t is rounded twice, |t erf'(t)| < 0.484."""
    value = 2 * normal(x)
    return _ERF * np.abs(value - 1) + 2 * 0.484 + value


def _gelu(call: Call, exact: Array) -> Array:
    """X / 2 times 1 + erf."""
    return np.abs(call["x"]) / 2 * _normal(call["x"]) + np.abs(exact)


def _gelu_grad(call: Call, exact: Array) -> Array:
    """The exponential of x^2 / 2 inherits the rounding of its argument."""
    x = call["x"]
    q = x * x / 2
    rise = np.abs(x) * np.exp(-q) * 0.4
    inner = _normal(x) / 2 + 2 * normal(x) + rise * (q + _EXP + 5)
    return np.abs(call["dy"]) * inner


def _gelu_tanh(call: Call, exact: Array) -> Array:
    """The logistic function inherits the roundings of its argument."""
    v, _ = gelu_argument(call["x"])
    return exact * (_LOGISTIC + _ARGUMENT * np.abs(v) * logistic(-v))


def _gelu_tanh_grad(call: Call, exact: Array) -> Array:
    """Sum of s and x v' s (1 - s)."""
    v, slope = gelu_argument(call["x"])
    rise, relative = np.abs(call["x"]) * slope * logistic(-v), _LOGISTIC + _ARGUMENT * np.abs(v)
    inner = relative + 4 + rise * (2 * relative + _ARGUMENT + 6)
    return np.abs(call["dy"]) * logistic(v) * inner


def _mish_grad(call: Call, exact: Array) -> Array:
    """Sum of t and x t'."""
    x = call["x"]
    t = np.tanh(np.logaddexp(0.0, x))
    rise = np.abs(x) * (1 - t * t) * logistic(x)
    inner = t * (_QUOTIENT + 2) + rise * (2 * _EXP + 2 * _QUOTIENT + 6)
    return np.abs(call["dy"]) * inner


def _softplus(call: Call, exact: Array) -> Array:
    """max(z, 0) + log(1 + e^-|z|) over beta; z = beta x may be rounded across the threshold."""
    beta = call.number("beta")
    z, rest = beta * call["x"], np.logaddexp(0.0, -np.abs(beta * call["x"]))
    near = np.abs(z - call.number("threshold")) <= 2 * U * np.abs(z)
    inner = 2 * np.abs(z) * logistic(z) + (_EXP + _LOG1P) * rest + near * rest / U
    return inner / beta + 3 * exact


def _softplus_grad(call: Call, exact: Array) -> Array:
    """The logistic function of beta x."""
    z = call.number("beta") * call["x"]
    near = np.abs(z - call.number("threshold")) <= 2 * U * np.abs(z)
    inner = logistic(z) * (_LOGISTIC + 1 + 2 * np.abs(z) * logistic(-z))
    return np.abs(call["dy"]) * (inner + near * logistic(-z) / U)


_ACTIVATIONS: dict[OpCode, Bound] = {
    OpCode.SIGMOID_FWD: _roundings(_LOGISTIC),
    OpCode.SIGMOID_GRAD: _roundings(3),
    OpCode.RELU6_FWD: _roundings(0),
    OpCode.RELU6_GRAD: _roundings(0),
    OpCode.LEAKY_RELU_FWD: _roundings(2),
    OpCode.LEAKY_RELU_GRAD: _roundings(2),
    OpCode.ELU_FWD: _roundings(_EXPM1 + 2),
    OpCode.ELU_GRAD: _per_element("dx", _elu_grad),
    OpCode.SILU_FWD: _per_element("y", lambda call, exact: _LOGISTIC * exact),
    OpCode.SILU_GRAD: _per_element("dx", _silu_grad),
    OpCode.HARDSWISH_FWD: _roundings(3),
    OpCode.HARDSWISH_GRAD: _per_element("dx", _hardswish_grad),
    OpCode.HARDSIGMOID_FWD: _roundings(2),
    OpCode.HARDSIGMOID_GRAD: _roundings(1),
    OpCode.GELU_FWD: _per_element("y", _gelu),
    OpCode.GELU_GRAD: _per_element("dx", _gelu_grad),
    OpCode.GELU_TANH_FWD: _per_element("y", _gelu_tanh),
    OpCode.GELU_TANH_GRAD: _per_element("dx", _gelu_tanh_grad),
    OpCode.MISH_FWD: _per_element("y", lambda call, exact: (_QUOTIENT + 1) * exact),
    OpCode.MISH_GRAD: _per_element("dx", _mish_grad),
    OpCode.SOFTPLUS_FWD: _per_element("y", _softplus),
    OpCode.SOFTPLUS_GRAD: _per_element("dx", _softplus_grad),
}
_BOUNDS: dict[OpCode, Bound] = {
    **_ACTIVATIONS,
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
    OpCode.MAXPOOL2D_FWD: _roundings(0),
    OpCode.MAXPOOL2D_GRAD: _products(lambda call: {"dx": prod(call.pair("kernel"))}),
    OpCode.AVGPOOL2D_FWD: _products(lambda call: {"y": _window(call) + 2}),
    OpCode.AVGPOOL2D_GRAD: _products(lambda call: {"dx": _window(call) + 2}),
    OpCode.BATCHNORM2D_FWD: _batchnorm_fwd,
    OpCode.BATCHNORM2D_EVAL: _batchnorm_eval,
    OpCode.BATCHNORM2D_GRAD: _batchnorm_grad,
    OpCode.BATCHNORM2D_EVAL_GRAD: _batchnorm_eval_grad,
    OpCode.RELU_FWD: _roundings(0),
    OpCode.RELU_GRAD: _roundings(0),
    OpCode.TANH_FWD: _roundings(2 * FUNCTION_ULPS),
    OpCode.TANH_GRAD: lambda call, exact: {"dx": 4 * U * call["dy"]},
    OpCode.DROPOUT_FWD: _roundings(2),
    OpCode.DROPOUT_GRAD: _roundings(2),
    OpCode.ADD: _roundings(1),
    OpCode.COPY: _roundings(0),
    OpCode.NHWC_TO_NCHW: _roundings(0),
    OpCode.NCHW_TO_NHWC: _roundings(0),
    OpCode.CROSS_ENTROPY_GRAD: _cross_entropy,
    OpCode.CROSS_ENTROPY_EVAL: _cross_entropy,
    OpCode.MSE_GRAD: _mse,
    OpCode.MSE_EVAL: _mse,
    OpCode.GRAD_SUMSQ: lambda call, exact: {"acc": gamma(call["g"].size + 1) * exact["acc"]},
    OpCode.CLIP_SCALE: _roundings(4),
    OpCode.CLIP_VALUE: _roundings(1),
    OpCode.SGD_STEP: _sgd,
    OpCode.ADAM_STEP: _adam,
    OpCode.ADAMW_STEP: _adamw,
    OpCode.RMSPROP_STEP: _rmsprop,
    OpCode.ADAGRAD_STEP: _adagrad,
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
}
_CODE_OF: dict[Bound, OpCode] = {bound: code for code, bound in _BOUNDS.items()}
