"""Normalisation by statistics of a sample."""

from __future__ import annotations

from math import prod

import numpy as np

from armtrain.ir.ops import OpCode
from armtrain.runtime.reference.call import Call, Outputs
from tests.tolerances.model import Bound, U, gamma

__all__ = ["BOUNDS"]

_ROWS = (-1,)
_GROUPS = (1, 3)
"""Axes of the statistics: of rows, and of (N, pixels, groups, channels of a group)."""


def _form(call: Call, values: np.ndarray, over: tuple[int, ...]) -> np.ndarray:
    """Return values in the form whose axes `over` have common statistics."""
    if over == _ROWS:
        return values
    n, height, width, channels = values.shape
    groups = call.integer("groups")
    return values.reshape(n, height * width, groups, channels // groups)


def _forward(mean_word: str, invstd_word: str, over: tuple[int, ...]) -> Bound:
    """Return the bound of values normalised by statistics, which are sums in any order."""

    def bound(call: Call, exact: Outputs) -> Outputs:
        x = _form(call, call["x"], over)
        mean, invstd = (np.expand_dims(exact[w], over) for w in (mean_word, invstd_word))
        n = prod(x.shape[axis] for axis in over)
        distance = np.abs(x - mean)
        d_mean = gamma(n + 1) * np.abs(x).mean(axis=over, keepdims=True)
        d_var = gamma(n + 3) * (distance**2).mean(axis=over, keepdims=True)
        d_var = d_var + 2 * d_mean * distance.mean(axis=over, keepdims=True) + d_mean**2
        d_invstd = invstd * (d_var * invstd**2 / 2 + 4 * U)
        y = invstd * d_mean + distance * d_invstd + 4 * U * (np.abs(x) + np.abs(mean)) * invstd
        scaled = y.reshape(call["x"].shape) * np.abs(call.get("gamma", 1.0))
        return {
            "y": scaled + 2 * U * np.abs(call.get("beta", 0.0)),
            mean_word: d_mean.squeeze(over),
            invstd_word: d_invstd.squeeze(over),
        }

    return bound


def _backward(mean_word: str, invstd_word: str, over: tuple[int, ...]) -> Bound:
    """Return the bound of the gradient: two sums of a group, two of a column."""

    def bound(call: Call, exact: Outputs) -> Outputs:
        x, invstd = _form(call, call["x"], over), np.expand_dims(call[invstd_word], over)
        mean = np.expand_dims(call.values.get(mean_word, 0.0 * call[invstd_word]), over)
        n = prod(x.shape[axis] for axis in over)
        normal = np.abs(x - mean) * invstd
        wide = (np.abs(x) + np.abs(mean)) * invstd
        scaled = _form(call, np.abs(call["dy"] * call.get("gamma", 1.0)), over)
        mean_dy = scaled.mean(axis=over, keepdims=True)
        mean_dot = (scaled * normal).mean(axis=over, keepdims=True)
        inner = gamma(n + 4) * (mean_dy + normal * mean_dot)
        inner = inner + 8 * U * (scaled + mean_dy + wide * mean_dot)
        shape, columns = call["dy"].shape, tuple(range(call["dy"].ndim - 1))
        count, dy = prod(shape[:-1]), np.abs(call["dy"])
        return {
            "dx": (inner * invstd).reshape(shape),
            "dgamma": gamma(count + 6) * (dy * wide.reshape(shape)).sum(axis=columns),
            "dbeta": gamma(count) * dy.sum(axis=columns),
        }

    return bound


BOUNDS: dict[OpCode, Bound] = {
    OpCode.LAYERNORM_FWD: _forward("row_mean", "row_invstd", _ROWS),
    OpCode.LAYERNORM_GRAD: _backward("row_mean", "row_invstd", _ROWS),
}
