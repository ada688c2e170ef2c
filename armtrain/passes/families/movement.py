"""What changes the shape or the order of a value and no number in it."""

from __future__ import annotations

from typing import Any

from armtrain.ir.graph import Node, NodeKind
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Step
from armtrain.passes.autodiff import Backward, BackwardRule
from armtrain.passes.forward import Forward, ForwardRule

__all__ = ["BACKWARD", "FORWARD"]


def _flatten(fwd: Forward, node: Node, attrs: Any) -> list[Step]:
    """Show the input."""
    return fwd.show(node)


def _flatten_gradient(back: Backward, node: Node, attrs: Any) -> None:
    """Pass the same bytes on."""
    back.contribute(node, back.passed(node))


def _to_nchw(fwd: Forward, node: Node, attrs: Any) -> list[Step]:
    """Bring a flattened image into torch's order."""
    source = node.inputs[0]
    dims, layout = fwd.image_layout(source)
    name = f"{fwd.name(source)}.image"
    x = fwd.emitter.view(fwd.values[source], name, dims, layout, fwd.phase)
    return [fwd.emitter.step(OpCode.NHWC_TO_NCHW, fwd.place(node), x=x, y=fwd.result(node))]


def _to_nchw_gradient(back: Backward, node: Node, attrs: Any) -> None:
    """Bring the gradient back into arena order."""
    dims, layout = back.fwd.image_layout(node.inputs[0])
    dx, dy = back.derivative(back.contribution_name(node), dims, layout), back.gradient(node)
    op, place = OpCode.NCHW_TO_NHWC, back.place(node, "CD")
    back.group.derivative.append(back.fwd.emitter.step(op, place, x=dy, y=dx))
    back.contribute(node, dx)


FORWARD: dict[NodeKind, ForwardRule] = {
    NodeKind.FLATTEN: _flatten,
    NodeKind.TO_NCHW: _to_nchw,
}

BACKWARD: dict[NodeKind, BackwardRule] = {
    NodeKind.FLATTEN: _flatten_gradient,
    NodeKind.TO_NCHW: _to_nchw_gradient,
}
