"""Bounds of arithmetic, sums and matrix products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from armtrain.ir.arithmetic import Function
from armtrain.ir.ops import OpCode
from armtrain.runtime.reference.call import Call, Outputs
from armtrain.runtime.reference.table import FUNCTIONS
from tests.tolerances.model import FUNCTION_ULPS, Bound, U, gamma, roundings

__all__ = ["BOUNDS"]

_DOUBLE = 2.0**-53


def _absolute(op: OpCode, call: Call) -> Outputs:
    """Return the results of absolute inputs."""
    return FUNCTIONS[op](replace(call, values={n: np.abs(v) for n, v in call.values.items()}))


def _affine(call: Call, exact: Outputs) -> Outputs:
    """Both numbers, the product and the sum are rounded; the sum may cancel."""
    product = np.abs(call.number("scale") * call["x"])
    return {"y": 2 * U * product + U * abs(call.number("shift")) + U * np.abs(exact["y"])}


def _power(call: Call, exact: Outputs) -> Outputs:
    """As many factors, a root and a quotient; squares of squares double their errors."""
    return {"y": (abs(call.integer("halves")) / 2 + 4) * U * exact["y"]}


def _function(call: Call, exact: Outputs) -> Outputs:
    """Our exponential inherits nothing; the logarithm is rounded once."""
    ulps = {Function.EXP: 2 * FUNCTION_ULPS, Function.LOG: 2.0}
    return {"y": ulps.get(Function(call.integer("which")), 0.0) * U * exact["y"]}


def _reduce(call: Call, exact: Outputs) -> Outputs:
    """A sum in double, rounded once; this sum is rounded in double, too, and both may cancel."""
    terms = call["x"].size / exact["total"].size
    sums = _absolute(OpCode.REDUCE, replace(call, attrs={"scale": abs(call.number("scale"))}))
    return {"total": U * np.abs(exact["total"]) + 2 * (terms + 2) * _DOUBLE * sums["total"]}


def _matmul(call: Call, exact: Outputs) -> Outputs:
    """Gamma of the terms times the product of absolute values."""
    terms = call["x"].shape[-2 if call.integer("x_turned") else -1]
    return {"y": gamma(terms) * _absolute(OpCode.MATMUL, call)["y"]}


BOUNDS: dict[OpCode, Bound] = {
    OpCode.COMBINE: roundings(1),
    OpCode.AFFINE: _affine,
    OpCode.POWER: _power,
    OpCode.FUNCTION: _function,
    OpCode.EXPAND: roundings(2),
    OpCode.REDUCE: _reduce,
    OpCode.MATMUL: _matmul,
}
