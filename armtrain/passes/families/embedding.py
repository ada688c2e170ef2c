"""Rows of a table by number."""

from __future__ import annotations

from armtrain.errors import ShapeError
from armtrain.ir.graph import EmbeddingAttrs, Node, NodeKind
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Layout, Step, TensorId
from armtrain.limits import NO_LABEL
from armtrain.passes.autodiff import Backward, BackwardRule
from armtrain.passes.forward import Forward, ForwardRule

__all__ = ["BACKWARD", "FORWARD"]


def _table(fwd: Forward, node: Node) -> tuple[TensorId, bool]:
    """Return the tensor of the table, and whether it lies turned: as a linear layer's weight."""
    w = fwd.param(node, "weight")
    assert w is not None
    layout = fwd.emitter.tensors[w].layout
    turned = layout == Layout(layout.shape, layout.shape, (1, 0))
    if not turned and layout != Layout.plain(layout.shape):
        raise ShapeError(
            f"layer '{node.name}' (embedding) shares its weight with what stands beside images and "
            "needs it in another order; share it with linear layers or other embeddings"
        )
    return w, turned


def _embedding(fwd: Forward, node: Node, attrs: EmbeddingAttrs) -> list[Step]:
    """Copy rows."""
    w, turned = _table(fwd, node)
    op, values = OpCode.EMBEDDING_FWD, {"turned": turned}
    x, y = fwd.source(node), fwd.result(node)
    return [fwd.emitter.step(op, fwd.place(node), values, x=x, w=w, y=y)]


def _embedding_gradient(back: Backward, node: Node, attrs: EmbeddingAttrs) -> None:
    """Add up what belongs to each row; indices have no gradient."""
    if not back.trains(node, "weight"):
        return
    padding = NO_LABEL if attrs.padding is None else attrs.padding
    values = {"turned": _table(back.fwd, node)[1], "padding": padding}
    slots: dict[str, TensorId | None] = {"x": back.fwd.source(node), "dy": back.gradient(node)}
    op, rows = OpCode.EMBEDDING_GRAD_ROWS, back.rows_gradient(node, "weight", back.fwd.source(node))
    if rows is None:
        op, slots["dw"] = OpCode.EMBEDDING_GRAD, back.param_gradient(node, "weight")
    step = back.fwd.emitter.step(op, back.place(node, "CG"), values, rows=rows, **slots)
    back.group.gradient.append(step)
    back.finish_params(node)


FORWARD: dict[NodeKind, ForwardRule] = {NodeKind.EMBEDDING: _embedding}

BACKWARD: dict[NodeKind, BackwardRule] = {NodeKind.EMBEDDING: _embedding_gradient}
