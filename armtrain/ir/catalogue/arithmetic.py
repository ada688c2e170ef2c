"""Arithmetic of values, with dimensions of 1 that stand for all places of another value's."""

from __future__ import annotations

from armtrain.ir.op_codes import OpCode, Row

__all__ = ["ROWS"]

ROWS: tuple[Row, ...] = (
    (
        OpCode.COMBINE,
        "a:R other:R y:W",
        "how:combine",
        "y=a",
        "y = a + other, a - other, a other, a / other, other - a, other / a by `how`; trailing "
        "dimensions of other are a's or 1, a batch in both or in a alone",
    ),
    (OpCode.AFFINE, "x:R y:W", "scale:real shift:real", "y=x", "y = scale x + shift"),
    (OpCode.POWER, "x:R y:W", "halves:halves", "y=x", "y = x^(halves / 2)"),
    (OpCode.FUNCTION, "x:R y:W", "which:function", "y=x", "y = e^x, log x, |x|, sign x by `which`"),
    (OpCode.EXPAND, "small:R y:W", "scale:real", "", "y = scale small, small as other of combine"),
    (
        OpCode.REDUCE,
        "x:R total:W",
        "scale:real",
        "",
        "total = scale times the sum of x over the dimensions that are 1 in total, or not there",
    ),
    (
        OpCode.MATMUL,
        "x:R z:R y:W ws:S?",
        "x_turned:flag z_turned:flag",
        "",
        "y[.., M, P] = x[.., M, K] z[.., K, P], either one transposed where it is turned",
    ),
)
