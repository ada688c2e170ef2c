"""The rows of the catalogue of plan operations, a module per family.

A row is (code, operands, attributes, in-place pairs, summary), in the notation of `ir/ops.py`.
"""

from __future__ import annotations

from armtrain.ir.catalogue import (
    activations,
    arithmetic,
    images,
    layers,
    losses,
    movement,
    norms,
    training,
)
from armtrain.ir.op_codes import Row

__all__ = ["ROWS"]

ROWS: tuple[Row, ...] = (
    *layers.ROWS,
    *losses.ROWS,
    *training.ROWS,
    *activations.ROWS,
    *movement.ROWS,
    *arithmetic.ROWS,
    *norms.ROWS,
    *images.ROWS,
)
