"""Layers that make images larger or of a given size."""

from __future__ import annotations

from armtrain.ir.catalogue.layers import CONV
from armtrain.ir.op_codes import OpCode, Row

__all__ = ["ROWS"]

_SCALE = "scale_h:rate scale_w:rate"
"""Output pixels for one of the input, 0: as the sizes are to each other."""
_ALIGNED = f"{_SCALE} align_corners:flag"

ROWS: tuple[Row, ...] = (
    (
        OpCode.CONV_TRANSPOSE2D_FWD,
        "x:R w:R b:R? y:W ws:S?",
        CONV,
        "",
        "y = input gradient of a convolution y[N,H,W,O] to x[N,P,Q,C] with w[G,KH,KW,O/G,C/G], + b",
    ),
    (
        OpCode.CONV_TRANSPOSE2D_GRAD_W,
        "x:R dy:R dw:W? db:W? ws:S?",
        CONV,
        "",
        "weight gradient of that convolution with x in place of its gradient; db = sum of dy",
    ),
    (OpCode.CONV_TRANSPOSE2D_GRAD_X, "dy:R w:R dx:W ws:S?", CONV, "", "that convolution of dy"),
    (
        OpCode.ADAPTIVE_AVGPOOL2D_FWD,
        "x:R y:W",
        "",
        "",
        "mean over [floor(o in / out), ceil((o + 1) in / out)) of each axis",
    ),
    (OpCode.ADAPTIVE_AVGPOOL2D_GRAD, "dy:R dx:W", "", "", "spread dy over its window"),
    (
        OpCode.UPSAMPLE_NEAREST2D_FWD,
        "x:R y:W",
        _SCALE,
        "",
        "y[o] = x[floor(o in / out)], in float32; in / out is 1 / scale where that is given",
    ),
    (OpCode.UPSAMPLE_NEAREST2D_GRAD, "dy:R dx:W", _SCALE, "", "sum of dy over the copies"),
    (
        OpCode.UPSAMPLE_BILINEAR2D_FWD,
        "x:R y:W",
        _ALIGNED,
        "",
        "x at (o + 1/2) in / out - 1/2 >= 0 of each axis, or at o (in - 1) / (out - 1)",
    ),
    (OpCode.UPSAMPLE_BILINEAR2D_GRAD, "dy:R dx:W", _ALIGNED, "", "dy by the same weights"),
)
