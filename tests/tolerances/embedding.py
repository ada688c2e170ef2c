"""Rows of a table: copies, and sums of what belongs to a row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from armtrain.ir.ops import OpCode
from armtrain.runtime.reference.call import Call, Outputs
from armtrain.runtime.reference.embedding import embedding_grad, embedding_grad_rows, whole_table
from tests.tolerances.model import Bound, gamma, roundings
from tests.tolerances.training import BOUNDS as UPDATES

__all__ = ["BOUNDS"]


def _sums(call: Call, exact: Outputs) -> Outputs:
    """Return the bound of sums of as many numbers as there are indices at most."""
    absolute = replace(call, values={"x": call["x"], "dy": np.abs(call["dy"])})
    sums = embedding_grad if "dw" in call.shapes else embedding_grad_rows
    return {name: gamma(call["x"].size) * size for name, size in sums(absolute).items()}


def _of_table(code: OpCode) -> Bound:
    """Return the bound of an update of the whole table."""

    def bound(call: Call, exact: Outputs) -> Outputs:
        table = replace(call, values={**call.values, "g": whole_table(call.values)})
        return UPDATES[code](table, exact)

    return bound


BOUNDS: dict[OpCode, Bound] = {
    OpCode.EMBEDDING_FWD: roundings(0),
    OpCode.EMBEDDING_GRAD: _sums,
    OpCode.EMBEDDING_GRAD_ROWS: _sums,
    OpCode.EMBEDDING_SGD_STEP: _of_table(OpCode.SGD_STEP),
    OpCode.EMBEDDING_ADAGRAD_STEP: _of_table(OpCode.ADAGRAD_STEP),
}
