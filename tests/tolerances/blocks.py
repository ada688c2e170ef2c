"""Updates that make the gradient of their weight: the update's bound, given the gradient's."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from armtrain.ir.ops import UPDATE_OF, OpCode
from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.blocks import whole_gradient
from armtrain.runtime.reference.call import Call, Outputs
from tests.tolerances.model import Bound, U, gamma
from tests.tolerances.training import BOUNDS as UPDATES

__all__ = ["BOUNDS"]


def _last(whole: Array, block: tuple[int, ...]) -> Array:
    """Return the rows that the last blocks leave in an array of one block."""
    rows, last = whole.reshape(-1, block[1]), np.empty(block)
    for first in range(0, len(rows), block[0]):
        last[: len(rows) - first] = rows[first : first + block[0]]
    return last


def _of_update(code: OpCode) -> Bound:
    """Return the bound of an update with a gradient that is off itself."""

    def bound(call: Call, exact: Outputs) -> Outputs:
        absolute = replace(
            call, values={n: np.abs(v) if n in ("x", "dy") else v for n, v in call.values.items()}
        )
        gradient = whole_gradient(call)
        error = gamma(prod(call["dy"].shape[:-1])) * whole_gradient(absolute)
        if limit := call.number("limit"):  # the limit itself is rounded
            gradient, error = np.clip(gradient, -limit, limit), error + U * limit
        made = replace(call, values={**call.values, "g": gradient, "g_error": error})
        return {**UPDATES[code](made, exact), "g": _last(error, call.shapes["g"])}

    return bound


BOUNDS: dict[OpCode, Bound] = {code: _of_update(of) for code, of in UPDATE_OF.items()}
