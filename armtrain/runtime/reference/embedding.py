"""Rows of a table by number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs
from armtrain.runtime.reference.update import adagrad_step, sgd_step

__all__ = [
    "embedding_adagrad_step",
    "embedding_fwd",
    "embedding_grad",
    "embedding_grad_rows",
    "embedding_sgd_step",
    "whole_table",
]


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


def embedding_grad_rows(call: Call) -> Outputs:
    """Rows = the sum of dy where x is the same, at the first of these places; 0 at the others."""
    x, dy = call["x"].astype(np.int64).reshape(-1), call["dy"]
    _, first, number = np.unique(x, return_index=True, return_inverse=True)
    rows = np.zeros((x.size, dy.shape[-1]))
    np.add.at(rows, first[number], dy.reshape(rows.shape))
    rows[x == call.integer("padding")] = 0.0
    return {"rows": rows.reshape(dy.shape)}


def whole_table(values: Mapping[str, Array]) -> Array:
    """Return the gradient of a whole table, given that of some rows."""
    gradient, columns = np.zeros(values["w"].shape), values["rows"].shape[-1]
    x = values["x"].astype(np.int64).reshape(-1)
    np.add.at(gradient, x, values["rows"].reshape(-1, columns))
    return gradient


def embedding_sgd_step(call: Call) -> Outputs:
    """torch.optim.SGD where the gradient is not 0."""
    return _update(call, sgd_step)


def embedding_adagrad_step(call: Call) -> Outputs:
    """torch.optim.Adagrad where the gradient is not 0."""
    return _update(call, adagrad_step)


def _update(call: Call, whole: Callable[[Call], Outputs]) -> Outputs:
    """Return what an update of the whole table does, which leaves other rows as they are."""
    return whole(replace(call, values={**call.values, "g": whole_table(call.values)}))
