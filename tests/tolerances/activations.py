"""Functions of one element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from armtrain.ir.ops import OpCode
from armtrain.runtime.reference.activation import gelu_argument, logistic, normal
from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs
from tests.tolerances.model import TINY, Bound, U, roundings

__all__ = ["BOUNDS"]

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


BOUNDS: dict[OpCode, Bound] = {
    OpCode.SIGMOID_FWD: roundings(_LOGISTIC),
    OpCode.SIGMOID_GRAD: roundings(3),
    OpCode.RELU6_FWD: roundings(0),
    OpCode.RELU6_GRAD: roundings(0),
    OpCode.LEAKY_RELU_FWD: roundings(2),
    OpCode.LEAKY_RELU_GRAD: roundings(2),
    OpCode.ELU_FWD: roundings(_EXPM1 + 2),
    OpCode.ELU_GRAD: _per_element("dx", _elu_grad),
    OpCode.SILU_FWD: _per_element("y", lambda call, exact: _LOGISTIC * exact),
    OpCode.SILU_GRAD: _per_element("dx", _silu_grad),
    OpCode.HARDSWISH_FWD: roundings(3),
    OpCode.HARDSWISH_GRAD: _per_element("dx", _hardswish_grad),
    OpCode.HARDSIGMOID_FWD: roundings(2),
    OpCode.HARDSIGMOID_GRAD: roundings(1),
    OpCode.GELU_FWD: _per_element("y", _gelu),
    OpCode.GELU_GRAD: _per_element("dx", _gelu_grad),
    OpCode.GELU_TANH_FWD: _per_element("y", _gelu_tanh),
    OpCode.GELU_TANH_GRAD: _per_element("dx", _gelu_tanh_grad),
    OpCode.MISH_FWD: _per_element("y", lambda call, exact: (_QUOTIENT + 1) * exact),
    OpCode.MISH_GRAD: _per_element("dx", _mish_grad),
    OpCode.SOFTPLUS_FWD: _per_element("y", _softplus),
    OpCode.SOFTPLUS_GRAD: _per_element("dx", _softplus_grad),
}
