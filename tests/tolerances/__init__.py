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

import numpy as np

from armtrain.ir.ops import OpCode
from armtrain.runtime.reference.call import Call, Outputs
from tests.tolerances import (
    activations,
    arithmetic,
    blocks,
    embedding,
    layers,
    losses,
    sample_norm,
    softmax,
    training,
)
from tests.tolerances.model import FUNCTION_ULPS, SECOND_ORDER, TINY, U, gamma

__all__ = ["FUNCTION_ULPS", "U", "bounds", "gamma"]

_FAMILIES = (
    *(layers, arithmetic, activations, softmax, sample_norm, embedding, losses, training),
    blocks,
)
_BOUNDS = {op: bound for family in _FAMILIES for op, bound in family.BOUNDS.items()}


def bounds(op: OpCode, call: Call, exact: Outputs) -> Outputs:
    """Return the error bound of every output of one operation."""
    raw = _BOUNDS[op](call, exact)
    return {name: SECOND_ORDER * np.abs(value) + TINY for name, value in raw.items()}
