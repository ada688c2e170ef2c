"""How each kind of node is lowered: a module per family, its steps forward and backward.

A family gives two tables, `FORWARD` and `BACKWARD`; they are joined here and nowhere else.
"""

from __future__ import annotations

from armtrain.ir.graph import NodeKind
from armtrain.passes.autodiff import BackwardRule
from armtrain.passes.families import (
    arithmetic,
    dense,
    embedding,
    movement,
    norm,
    pointwise,
    pooling,
    softmax,
)
from armtrain.passes.forward import ForwardRule

__all__ = ["BACKWARD_RULES", "FORWARD_RULES"]

_FAMILIES = (arithmetic, dense, embedding, movement, norm, pointwise, pooling, softmax)

FORWARD_RULES: dict[NodeKind, ForwardRule] = {
    kind: rule for family in _FAMILIES for kind, rule in family.FORWARD.items()
}
BACKWARD_RULES: dict[NodeKind, BackwardRule] = {
    kind: rule for family in _FAMILIES for kind, rule in family.BACKWARD.items()
}
