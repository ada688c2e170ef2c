"""Arithmetic with broadcasting, sums, matrix products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from armtrain.ir.arithmetic import Combine, Function
from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs

__all__ = ["affine", "combine", "expand", "function", "matmul", "power", "reduce"]

_COMBINE: dict[int, Callable[[Array, Array], Array]] = {
    Combine.ADD: lambda a, b: a + b,
    Combine.SUB: lambda a, b: a - b,
    Combine.MUL: lambda a, b: a * b,
    Combine.DIV: lambda a, b: a / b,
    Combine.RSUB: lambda a, b: b - a,
    Combine.RDIV: lambda a, b: b / a,
}
_FUNCTIONS: dict[int, Callable[[Array], Array]] = {
    Function.EXP: np.exp,
    Function.LOG: np.log,
    Function.ABS: np.abs,
    Function.SIGN: np.sign,
}


def combine(call: Call) -> Outputs:
    """Y = a o other."""
    y = _COMBINE[call.integer("how")](call["a"], call["other"])
    return {"y": y.reshape(call.shapes["y"])}


def affine(call: Call) -> Outputs:
    """Y = scale x + shift."""
    return {"y": call.number("scale") * call["x"] + call.number("shift")}


def power(call: Call) -> Outputs:
    """Y = x^(halves / 2)."""
    return {"y": call["x"] ** (call.integer("halves") / 2)}


def function(call: Call) -> Outputs:
    """Y = f(x)."""
    return {"y": _FUNCTIONS[call.integer("which")](call["x"])}


def expand(call: Call) -> Outputs:
    """Y = scale small, for every place that it stands for."""
    shape = call.shapes["y"]
    return {"y": np.broadcast_to(call.number("scale") * call["small"], shape).copy()}


def reduce(call: Call) -> Outputs:
    """Total = scale times a sum."""
    x, shape = call["x"], call.shapes["total"]
    whole = (*(1,) * (x.ndim - len(shape)), *shape)
    gone = tuple(axis for axis, n in enumerate(whole) if n == 1)
    return {"total": (call.number("scale") * x.sum(axis=gone)).reshape(shape)}


def matmul(call: Call) -> Outputs:
    """Y = x z, either turned."""
    x, z = (
        call[name].swapaxes(-2, -1) if call.integer(f"{name}_turned") else call[name]
        for name in ("x", "z")
    )
    return {"y": x @ z}
