"""Normalisation by statistics of a sample, which need no batch."""

from __future__ import annotations

from armtrain.ir.op_codes import OpCode, Row

__all__ = ["ROWS"]

ROWS: tuple[Row, ...] = (
    (
        OpCode.LAYERNORM_FWD,
        "x:R gamma:R? beta:R? y:W row_mean:W? row_invstd:W?",
        "eps:rate centred:flag",
        "y=x",
        "over the last dimension; centred: y = (x - mean) / sqrt(var + eps) * gamma + beta, else "
        "y = x / sqrt(mean of x^2 + eps) * gamma + beta",
    ),
    (
        OpCode.LAYERNORM_GRAD,
        "x:R gamma:R? row_mean:R? row_invstd:R dy:R dx:W? dgamma:W? dbeta:W?",
        "",
        "dx=dy",
        "gradient through the statistics of every row; row_mean only where they are centred",
    ),
)
