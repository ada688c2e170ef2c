"""What works element by element: activations, dropout, sums."""

from __future__ import annotations

from typing import Any

from armtrain.ir.graph import ActivationAttrs, DropoutAttrs, Node, NodeKind
from armtrain.ir.ops import OpCode, spec_of
from armtrain.ir.program import Step
from armtrain.passes.autodiff import Backward, BackwardRule
from armtrain.passes.emit import stream_of_name
from armtrain.passes.forward import Forward, ForwardRule

__all__ = ["BACKWARD", "FORWARD", "rectifier_gradient"]


def _pointwise(op: OpCode) -> ForwardRule:
    """Return the rule of a one-operand operation without attributes."""

    def rule(fwd: Forward, node: Node, attrs: Any) -> list[Step]:
        x = fwd.source(node)
        return [fwd.emitter.step(op, fwd.place(node), x=x, y=fwd.result(node))]

    return rule


def rectifier_gradient(node: Node) -> OpCode | None:
    """Return the operation of a gradient that is dy where the value is inside bounds, else 0."""
    if node.kind == NodeKind.RELU:
        return OpCode.RELU_GRAD
    attrs = node.attrs
    relu6 = isinstance(attrs, ActivationAttrs) and attrs.function.name == "RELU6"
    return OpCode.RELU6_GRAD if relu6 else None


def _maxima_alone(back: Backward, node: Node) -> bool:
    """Whether only maxima are taken of a rectifier's value, whose gradient has passed it then."""
    user = back.sole_user(node)
    pooled = user is not None and user.kind == NodeKind.MAXPOOL2D
    return pooled and rectifier_gradient(node) is not None


def _from_value(op: OpCode) -> BackwardRule:
    """Return the rule of an activation whose derivative follows from its value."""

    def rule(back: Backward, node: Node, attrs: Any) -> None:
        if _maxima_alone(back, node):
            return back.contribute(node, back.passed(node))
        return back.one_step(node, op, y=back.fwd.value(node.id))

    return rule


def _activation(fwd: Forward, node: Node, attrs: ActivationAttrs) -> list[Step]:
    """Apply the function of the node."""
    op, x = OpCode[f"{attrs.function.name}_FWD"], fwd.source(node)
    return [fwd.emitter.step(op, fwd.place(node), dict(attrs.numbers), x=x, y=fwd.result(node))]


def _activation_gradient(back: Backward, node: Node, attrs: ActivationAttrs) -> None:
    """Keep the input or the value, whichever the catalogue says the gradient reads."""
    op = OpCode[f"{attrs.function.name}_GRAD"]
    reads_y = "y" in spec_of(op).operand_index
    if _maxima_alone(back, node):
        return back.contribute(node, back.passed(node))
    kept = {"y": back.fwd.value(node.id)} if reads_y else {"x": back.fwd.source(node)}
    return back.one_step(node, op, attrs=dict(attrs.numbers), **kept)


def _dropout_attrs(node: Node, attrs: DropoutAttrs) -> dict[str, int | float]:
    """Return the attributes of dropout steps; the random stream is keyed by the node's name."""
    return {"p": attrs.p, "stream": stream_of_name(node.name)}


def _dropout(fwd: Forward, node: Node, attrs: DropoutAttrs) -> list[Step]:
    """Drop, or show the input."""
    if fwd.passes_through(node):
        return fwd.show(node)
    x, op = fwd.source(node), OpCode.DROPOUT_FWD
    values = _dropout_attrs(node, attrs)
    return [fwd.emitter.step(op, fwd.place(node), values, x=x, y=fwd.result(node))]


def _dropout_gradient(back: Backward, node: Node, attrs: DropoutAttrs) -> None:
    """Apply the same mask, or nothing."""
    if back.fwd.passes_through(node):
        back.contribute(node, back.passed(node))
    else:
        back.one_step(node, OpCode.DROPOUT_GRAD, attrs=_dropout_attrs(node, attrs))


def _add(fwd: Forward, node: Node, attrs: Any) -> list[Step]:
    """Sum of two values."""
    a, b = fwd.source(node, 0), fwd.source(node, 1)
    return [fwd.emitter.step(OpCode.ADD, fwd.place(node), a=a, b=b, y=fwd.result(node))]


def _add_gradient(back: Backward, node: Node, attrs: Any) -> None:
    """Pass the same tensor to every operand that needs it; nothing is copied."""
    dy = back.passed(node)
    for position, source in enumerate(node.inputs):
        back.contribute(node, dy if back.fwd.needs[source] else None, position)


FORWARD: dict[NodeKind, ForwardRule] = {
    NodeKind.RELU: _pointwise(OpCode.RELU_FWD),
    NodeKind.TANH: _pointwise(OpCode.TANH_FWD),
    NodeKind.ACTIVATION: _activation,
    NodeKind.DROPOUT: _dropout,
    NodeKind.ADD: _add,
}

BACKWARD: dict[NodeKind, BackwardRule] = {
    NodeKind.RELU: _from_value(OpCode.RELU_GRAD),
    NodeKind.TANH: _from_value(OpCode.TANH_GRAD),
    NodeKind.ACTIVATION: _activation_gradient,
    NodeKind.DROPOUT: _dropout_gradient,
    NodeKind.ADD: _add_gradient,
}
