"""Rows of a table by number."""

from __future__ import annotations

import numpy as np

from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs

__all__ = ["embedding_fwd", "embedding_grad"]


def _rows(call: Call, table: Array) -> Array:
    """Return a table, or its turned one, as a view with a row for each index."""
    return table.T if call.integer("turned") else table


def embedding_fwd(call: Call) -> Outputs:
    """Y = rows of w."""
    return {"y": _rows(call, call["w"])[call["x"].astype(np.int64)]}


def embedding_grad(call: Call) -> Outputs:
    """Row v of dw = sum of dy where x is v, 0 for the padding."""
    dw = np.zeros(call.shapes["dw"])
    x, dy = call["x"].astype(np.int64), call["dy"]
    counted = x != call.integer("padding")
    np.add.at(_rows(call, dw), x[counted], dy[counted])
    return {"dw": dw}
