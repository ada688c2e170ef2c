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
        f"{_TURNED} padding:label",
        "",
        "dw[v] = sum of dy where x = v, in order of x; 0 for v = padding",
    ),
)
