"""Rows of a table by number."""

from __future__ import annotations

from armtrain.ir.op_codes import OpCode, Row

__all__ = ["ROWS"]

_TURNED = "turned:flag"
"""The table lies as (columns, rows), as a linear layer's weight, which it may be too."""

ROWS: tuple[Row, ...] = (
    (
        OpCode.EMBEDDING_FWD,
        "x:R w:R y:W",
        _TURNED,
        "",
        "y[.., D] = w[x[..], D], x whole numbers in f32; w[D, V] if turned",
    ),
    (
        OpCode.EMBEDDING_GRAD,
        "x:R dy:R dw:W",
        f"{_TURNED} padding:padding",
        "",
        "dw[v] = sum of dy where x = v, in order of x; 0 for v = padding",
    ),
    (
        OpCode.EMBEDDING_GRAD_ROWS,
        "x:R dy:R rows:W ws:S",
        "padding:padding",
        "rows=dy",
        "the same sums, each in the row of the first x = v; all other rows are 0",
    ),
    (
        OpCode.EMBEDDING_SGD_STEP,
        "w:RW rows:R x:R scale:R?",
        "lr:rate momentum:rate dampening:real weight_decay:rate nesterov:flag",
        "",
        "SGD_STEP of the rows w[x[..]] alone; momentum and weight_decay are 0",
    ),
    (
        OpCode.EMBEDDING_ADAGRAD_STEP,
        "w:RW rows:R x:R scale:R? sum:RW",
        "lr:rate lr_decay:rate weight_decay:rate eps:rate",
        "",
        "ADAGRAD_STEP of the rows w[x[..]] alone; weight_decay is 0, eps is not",
    ),
)
