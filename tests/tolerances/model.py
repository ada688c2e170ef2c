"""The model of rounding that every bound is derived from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from armtrain.runtime.reference.call import Call, Outputs

__all__ = ["FUNCTION_ULPS", "SECOND_ORDER", "TINY", "Bound", "U", "gamma", "roundings"]

U = 2.0**-24
"""Unit roundoff of float32."""
FUNCTION_ULPS = 2
"""Units in the last place that our own exp, log and tanh may be off."""
SECOND_ORDER = 1.01
TINY = 2.0**-126

Bound = Callable[[Call, Outputs], Outputs]


def gamma(k: float) -> float:
    """Return k U / (1 - k U), the error factor of k roundings in a row."""
    return k * U / (1 - k * U)


def roundings(count: float) -> Bound:
    """Return the bound of results that are rounded `count` times without any cancellation."""
    return lambda call, exact: {n: count * U * np.abs(v) for n, v in exact.items()}
