"""What moves numbers without changing them. Axes are those of the arena; the batch stays first."""

from __future__ import annotations

from armtrain.ir.op_codes import OpCode, Row

__all__ = ["ROWS"]

_SLICE = "axis:axis start:place step:size"

ROWS: tuple[Row, ...] = (
    (OpCode.PERMUTE, "x:R y:W", "perm:axis*", "", "axis i + 1 of y is axis perm[i] of x"),
    (OpCode.SLICE, "x:R y:W", _SLICE, "", "y = x[start::step] along one axis, as many as y has"),
    (
        OpCode.PLACE,
        "x:R whole:R? y:W",
        f"{_SLICE} add:flag",
        "y=whole",
        "y = whole, or zeros without one, with x in place of, or added to, y[start::step]",
    ),
)
