"""What operations that move, combine and multiply whole values demand of their operands."""

from __future__ import annotations

from armtrain.ir.ops import OpCode
from armtrain.limits import MAX_INDICES
from armtrain.planfile.check_operands import IMPOSSIBLE, Needs, Operands, Rule

__all__ = ["TENSOR_RULES"]


def _permute(o: Operands) -> Needs:
    """Return the rule of a permutation: the batch stays, every other axis is there once."""
    x, perm = o.dims["x"], [int(v) for k, v in o.attrs.items() if k.startswith("perm[")]
    if sorted(perm) != list(range(1, len(x))):
        return {"x": IMPOSSIBLE}
    return {"y": (x[0], *(x[axis] for axis in perm))}


def _part(whole: str, small: str) -> Rule:
    """Return the rule of a part of a value along one axis."""

    def rule(o: Operands) -> Needs:
        dims, axis = list(o.dims[whole]), o.integer("axis")
        if axis >= min(len(dims), len(o.dims[small])):
            return {whole: IMPOSSIBLE}
        length, places = o.dims[small][axis], dims[axis]
        inside = o.integer("start") + o.integer("step") * (length - 1) < places
        based = "whole" in o.dims or not o.attrs.get("add", 0)
        needs: Needs = {"whole": o.dims[whole]}
        dims[axis] = length
        return {**needs, small: tuple(dims)} if inside and based else {whole: IMPOSSIBLE}

    return rule


def _broadcast(large: str, small: str, *others: str) -> Rule:
    """Return the rule of a value whose trailing dimensions are those of a larger one or 1."""

    def rule(o: Operands) -> Needs:
        dims, part = o.dims[large], o.dims[small]
        trailing = dims[len(dims) - len(part) :] if len(part) <= len(dims) else ()
        fits = len(trailing) == len(part)
        fits = fits and all(n in (1, m) for m, n in zip(trailing, part, strict=True))
        return dict.fromkeys(others, o.count(large)) if fits else {small: IMPOSSIBLE}

    return rule


def _matmul(o: Operands) -> Needs:
    """Return the rule of batched products of matrices, turned or not."""
    (*batch, rows, columns), x = o.dims["y"], o.dims["x"]
    x_turned, z_turned = o.integer("x_turned"), o.integer("z_turned")
    terms = x[-2 if x_turned else -1]
    sides = {"x": (rows, terms), "z": (terms, columns)}
    turned = {"x": x_turned, "z": z_turned}
    if not batch:
        return {"y": IMPOSSIBLE}
    return {
        name: (*batch, *(reversed(side) if turned[name] else side)) for name, side in sides.items()
    }


def _embedding(table: str, values: str) -> Rule:
    """Return the rule of rows of a table: its columns stand behind the dimensions of x."""

    def rule(o: Operands) -> Needs:
        x, sizes = o.dims["x"], o.dims[table]
        rows, columns = sizes[::-1] if o.integer("turned") else sizes
        return {values: (*x, columns) if rows <= MAX_INDICES else IMPOSSIBLE}

    return rule


def _rows_alone(o: Operands) -> Needs:
    """Return the rule of the gradient of a table's rows that a batch names."""
    x, columns = o.dims["x"], o.dims["dy"][-1]
    rows = (*x, columns) if o.count("x") <= MAX_INDICES else IMPOSSIBLE
    return {"dy": rows, "rows": rows}


def _update_of_rows(o: Operands) -> Needs:
    """Return the rule of an update of the rows that a batch names."""
    rows, columns = o.dims["w"]
    values = (*o.dims["x"], columns) if rows <= MAX_INDICES else IMPOSSIBLE
    return {"rows": values, "sum": o.dims["w"], "scale": (1,)}


TENSOR_RULES: dict[OpCode, Rule] = {
    OpCode.PERMUTE: _permute,
    OpCode.SLICE: _part("x", "y"),
    OpCode.PLACE: _part("y", "x"),
    OpCode.COMBINE: _broadcast("a", "other", "y"),
    OpCode.EXPAND: _broadcast("y", "small"),
    OpCode.REDUCE: _broadcast("x", "total"),
    OpCode.MATMUL: _matmul,
    OpCode.EMBEDDING_FWD: _embedding("w", "y"),
    OpCode.EMBEDDING_GRAD: _embedding("dw", "dy"),
    OpCode.EMBEDDING_GRAD_ROWS: _rows_alone,
    OpCode.EMBEDDING_SGD_STEP: _update_of_rows,
    OpCode.EMBEDDING_ADAGRAD_STEP: _update_of_rows,
}
