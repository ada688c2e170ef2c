"""Rows of a table: copies, and sums of what belongs to a row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from armtrain.ir.ops import OpCode
from armtrain.runtime.reference.call import Call, Outputs
from armtrain.runtime.reference.embedding import embedding_grad
from tests.tolerances.model import Bound, gamma, roundings

__all__ = ["BOUNDS"]


def _sums(call: Call, exact: Outputs) -> Outputs:
    """Return the bound of sums of as many numbers as there are indices at most."""
    absolute = replace(call, values={"x": call["x"], "dy": np.abs(call["dy"])})
    return {"dw": gamma(call["x"].size) * embedding_grad(absolute)["dw"]}


BOUNDS: dict[OpCode, Bound] = {
    OpCode.EMBEDDING_FWD: roundings(0),
    OpCode.EMBEDDING_GRAD: _sums,
}
