"""Gradient and update of a large weight, block by block of its rows.

A step takes the place of LINEAR_GRAD_W (w[I,O]) or CONV2D_GRAD_W (w[G,KH,KW,C/G,O/G]), CLIP_VALUE
if its limit is not 0, and the update that it is named after. g[R,O] has the gradient of R rows of
the weight, all dimensions but the last being rows: every R of them are completed, then the update
changes them and their state, with the bits of the separate steps.
"""

from __future__ import annotations

from armtrain.ir.catalogue import training
from armtrain.ir.catalogue.layers import CONV
from armtrain.ir.op_codes import OpCode, Row

__all__ = ["ROWS", "UPDATE_OF"]

UPDATE_OF = {
    OpCode.BLOCKS_SGD_STEP: OpCode.SGD_STEP,
    OpCode.BLOCKS_ADAM_STEP: OpCode.ADAM_STEP,
    OpCode.BLOCKS_ADAMW_STEP: OpCode.ADAMW_STEP,
    OpCode.BLOCKS_RMSPROP_STEP: OpCode.RMSPROP_STEP,
    OpCode.BLOCKS_ADAGRAD_STEP: OpCode.ADAGRAD_STEP,
}
"""Operation -> the update that it repeats block by block."""


def _row(code: OpCode, update: Row) -> Row:
    """Return an update's row with the operands and attributes of the gradient behind its own."""
    of, operands, attrs, _, _ = update
    kept = operands.removesuffix(" scale:R?").replace(" g:R", " g:W")
    summary = f"{of.name} of every block of w's rows after g, its gradient from x and dy"
    return code, f"{kept} x:R dy:R ws:S?", f"{attrs} limit:rate {CONV}", "", summary


_UPDATES = {row[0]: row for row in training.ROWS}
ROWS: tuple[Row, ...] = tuple(_row(code, _UPDATES[of]) for code, of in UPDATE_OF.items())
