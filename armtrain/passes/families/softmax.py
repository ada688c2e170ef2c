"""Softmax and its logarithm."""

from __future__ import annotations

from armtrain.ir.graph import MaskedSoftmaxAttrs, Node, NodeKind, SoftmaxAttrs
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


def _masked(fwd: Forward, node: Node, attrs: MaskedSoftmaxAttrs) -> list[Step]:
    """Normalise what counts along the last axis."""
    slots = {"mask": fwd.source(node, 1)} if len(node.inputs) > 1 else {}
    slots |= {"x": fwd.source(node), "y": fwd.result(node)}
    values = {"causal": attrs.causal}
    return [fwd.emitter.step(OpCode.MASKED_SOFTMAX_FWD, fwd.place(node), values, **slots)]


def _masked_gradient(back: Backward, node: Node, attrs: MaskedSoftmaxAttrs) -> None:
    """Find it from the value: what has the share 0 gets none, and neither does the mask."""
    fwd, axis = back.fwd, len(node.shape) - 1
    if len(node.inputs) > 1:
        zeros = back.input_gradient(node, 1)
        if zeros is not None:
            place, values = back.place(node, "CD"), {"scale": 0.0, "shift": 0.0}
            slots = {"x": fwd.source(node, 1), "y": zeros}
            back.group.derivative.append(fwd.emitter.step(OpCode.AFFINE, place, values, **slots))
        back.contribute(node, zeros, 1)
    if fwd.source_needs(node):
        values = {"axis": fwd.axis(node.id, axis)}
        back.one_step(node, OpCode.SOFTMAX_GRAD, values, y=fwd.value(node.id))


FORWARD: dict[NodeKind, ForwardRule] = {
    NodeKind.SOFTMAX: _softmax,
    NodeKind.MASKED_SOFTMAX: _masked,
}

BACKWARD: dict[NodeKind, BackwardRule] = {
    NodeKind.SOFTMAX: _softmax_gradient,
    NodeKind.MASKED_SOFTMAX: _masked_gradient,
}
