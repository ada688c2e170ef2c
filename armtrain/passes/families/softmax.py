"""Softmax and its logarithm."""

from __future__ import annotations

from armtrain.ir.graph import Node, NodeKind, SoftmaxAttrs
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Step
from armtrain.passes.autodiff import Backward, BackwardRule
from armtrain.passes.forward import Forward, ForwardRule

__all__ = ["BACKWARD", "FORWARD"]


def _axis(fwd: Forward, node: Node, attrs: SoftmaxAttrs) -> dict[str, int]:
    """Return the attribute of the steps."""
    return {"axis": fwd.axis(node.id, attrs.dim)}


def _softmax(fwd: Forward, node: Node, attrs: SoftmaxAttrs) -> list[Step]:
    """Normalise along one axis."""
    op, x = OpCode.LOG_SOFTMAX_FWD if attrs.log else OpCode.SOFTMAX_FWD, fwd.source(node)
    return [fwd.emitter.step(op, fwd.place(node), _axis(fwd, node, attrs), x=x, y=fwd.result(node))]


def _softmax_gradient(back: Backward, node: Node, attrs: SoftmaxAttrs) -> None:
    """Find it from the value."""
    op = OpCode.LOG_SOFTMAX_GRAD if attrs.log else OpCode.SOFTMAX_GRAD
    back.one_step(node, op, _axis(back.fwd, node, attrs), y=back.fwd.value(node.id))


FORWARD: dict[NodeKind, ForwardRule] = {NodeKind.SOFTMAX: _softmax}

BACKWARD: dict[NodeKind, BackwardRule] = {NodeKind.SOFTMAX: _softmax_gradient}
