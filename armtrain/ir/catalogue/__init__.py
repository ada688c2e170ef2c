"""The rows of the catalogue of plan operations, a module per family.

A row is (code, operands, attributes, in-place pairs, summary), in the notation of `ir/ops.py`.
"""

from __future__ import annotations

from armtrain.ir.catalogue import (
    activations,
    arithmetic,
    blocks,
    embedding,
    images,
    layers,
    losses,
    movement,
    norms,
    training,
)
from armtrain.ir.op_codes import Row

__all__ = ["FAMILIES", "ROWS"]

FAMILIES = (
    *(layers, losses, training, blocks, activations),
    *(movement, arithmetic, norms, images, embedding),
)
"""The modules, in the order of the page that is made of them."""

ROWS: tuple[Row, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
