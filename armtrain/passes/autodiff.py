"""The backward pass: for every forward node, the steps that differentiate it.

A value's gradient is the sum of one contribution per use. Contributions are completed one by one
and added in graph order of the uses, whatever order the backward pass visits them in, so that
sums never depend on scheduling. The same holds for parameters that several layers share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from armtrain.ir.graph import BatchNorm2dAttrs, Conv2dAttrs, DropoutAttrs, Node, NodeKind
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Layout, Role, Step, TensorId
from armtrain.passes.emit import Place
from armtrain.passes.forward import Forward, conv_attrs, dropout_attrs, pool_attrs

__all__ = ["Backward", "LayerGradients", "backward_of"]

Use = tuple[int, int]
"""(consumer id, input position): one use of a value."""


@dataclass
class LayerGradients:
    """Backward steps of one node.

    Attributes
    ----------
    gradient : list of Step
        Gradients of parameters, with the sums that complete them.
    derivative : list of Step
        Gradients of inputs, with the sums that complete them.
    complete : list of (str, TensorId)
        Parameters whose gradient is complete after this node, with it.
    """

    gradient: list[Step] = field(default_factory=list)
    derivative: list[Step] = field(default_factory=list)
    complete: list[tuple[str, TensorId]] = field(default_factory=list)


class Backward:
    """Visits nodes last to first and collects their gradients."""

    def __init__(self, fwd: Forward, output_gradient: TensorId) -> None:
        self.fwd = fwd
        self.group = LayerGradients()
        self._uses = fwd.graph.consumers()
        self._trained = {p.name for p in fwd.graph.params if p.trained}
        self._param_uses: dict[str, list[int]] = {}
        for node in fwd.graph.nodes:
            for _, name in node.params:
                self._param_uses.setdefault(name, []).append(node.id)
        self._contributions: dict[int, dict[Use, TensorId]] = {}
        self._param_parts: dict[str, dict[int, TensorId]] = {}
        self._gradients = {fwd.graph.output: output_gradient}

    def visit(self, node: Node) -> LayerGradients:
        """Return the backward steps of `node`; every later node has been visited."""
        self.group = LayerGradients()
        if self.fwd.needs[node.id] and node.kind != NodeKind.INPUT:
            _RULES[node.kind](self, node, node.attrs)
        return self.group

    def gradient(self, node: Node) -> TensorId:
        """Return the complete gradient of a node's value, for a step that reads it."""
        return self._shaped(node.id, self._gradients[node.id])

    def passed(self, node: Node) -> TensorId:
        """Return the complete gradient of a node's value, to pass it on in any dimensions."""
        return self._gradients[node.id]

    def _shaped(self, node_id: int, tensor: TensorId) -> TensorId:
        """Return a gradient in the dimensions of a node's value."""
        dims, layout = self.fwd.layout(node_id)
        return self.fwd.emitter.view(tensor, f"{self.fwd.name(node_id)}.grad", dims, layout)

    def place(self, node: Node, kind: str) -> Place:
        """Return where steps of `node` belong."""
        return self.fwd.place(node, kind)

    def trains(self, node: Node, slot: str) -> bool:
        """Whether the parameter in `slot` is there and trained."""
        return node.param(slot) in self._trained

    def input_gradient(self, node: Node) -> TensorId | None:
        """Make the tensor of a contribution to the input's gradient; None if not needed."""
        source = node.inputs[0]
        if not self.fwd.needs[source]:
            return None
        return self._derivative(source, self.contribution_name(node))

    def contribution_name(self, node: Node) -> str:
        """Return the name of a contribution to the input's gradient."""
        source = node.inputs[0]
        several = f"@{node.name}" if len(self._uses[source]) > 1 else ""
        return f"{self.fwd.name(source)}.grad{several}"

    def _derivative(self, node_id: int, name: str) -> TensorId:
        """Make a tensor like a node's value for its gradient."""
        dims, layout = self.fwd.layout(node_id)
        return self.derivative(name, dims, layout)

    def derivative(self, name: str, dims: tuple[int, ...], layout: Layout) -> TensorId:
        """Make a tensor for a gradient."""
        role = Role.DERIVATIVE
        return self.fwd.emitter.tensor(name, role, dims, layout=layout, batched=True)

    def contribute(self, node: Node, tensor: TensorId | None, position: int = 0) -> None:
        """Record a contribution; the last one of a value adds all of them up."""
        if tensor is None:
            return
        source = node.inputs[position]
        parts = self._contributions.setdefault(source, {})
        parts[node.id, position] = tensor
        if len(parts) < len(self._uses[source]):
            return
        name, place = f"{self.fwd.name(source)}.grad", self.place(node, "CD")
        total = parts[self._uses[source][0]]
        for use in self._uses[source][1:]:
            a, b = self._shaped(source, total), self._shaped(source, parts[use])
            total = self._derivative(source, name)
            step = self.fwd.emitter.step(OpCode.ADD, place, a=a, b=b, y=total)
            self.group.derivative.append(step)
        self._gradients[source] = total

    def param_gradient(self, node: Node, slot: str) -> TensorId | None:
        """Make the tensor of a contribution to a parameter's gradient; None if frozen."""
        if not self.trains(node, slot):
            return None
        param = node.param(slot)
        assert param is not None
        several = len(self._param_uses[param]) > 1
        tensor = self._param_tensor(param, f"@{node.name}" if several else "")
        self._param_parts.setdefault(param, {})[node.id] = tensor
        return tensor

    def _param_tensor(self, param: str, suffix: str) -> TensorId:
        """Make a tensor like a parameter for its gradient."""
        like = self.fwd.emitter.tensors[self.fwd.params[param]]
        name = f"{param}.grad{suffix}"
        return self.fwd.emitter.tensor(name, Role.GRADIENT, like.dims, layout=like.layout)

    def finish_params(self, node: Node) -> None:
        """Add up the gradients of parameters that have all their contributions."""
        for _, param in node.params:
            parts = self._param_parts.get(param, {})
            uses = self._param_uses[param]
            if param not in self._trained or len(parts) < len(uses):
                continue
            total = parts[uses[0]]
            for use in uses[1:]:
                result = self._param_tensor(param, "")
                step = self.fwd.emitter.step(
                    OpCode.ADD, self.place(node, "CG"), a=total, b=parts[use], y=result
                )
                self.group.gradient.append(step)
                total = result
            self.group.complete.append((param, total))


def _dense(grad_w: OpCode, grad_x: OpCode) -> Callable[[Backward, Node, Any], None]:
    """Return the rule of a layer with weight and bias."""

    def rule(back: Backward, node: Node, attrs: Any) -> None:
        emitter, dy = back.fwd.emitter, back.gradient(node)
        values = conv_attrs(attrs) if isinstance(attrs, Conv2dAttrs) else None
        x = back.fwd.source(node)
        dw, db = back.param_gradient(node, "weight"), back.param_gradient(node, "bias")
        if dw is not None or db is not None:
            place = back.place(node, "CG")
            back.group.gradient.append(
                emitter.step(grad_w, place, values, x=x, dy=dy, dw=dw, db=db)
            )
            back.finish_params(node)
        dx = back.input_gradient(node)
        if dx is not None:
            w, place = back.fwd.param(node, "weight"), back.place(node, "CD")
            back.group.derivative.append(emitter.step(grad_x, place, values, dy=dy, w=w, dx=dx))
        back.contribute(node, dx)

    return rule


def _one_step(back: Backward, node: Node, op: OpCode, **slots: Any) -> None:
    """Append the one step of a layer without parameters; `attrs` is taken out of `slots`."""
    attrs = slots.pop("attrs", None)
    dx = back.input_gradient(node)
    slots |= {"dy": back.gradient(node), "dx": dx}
    back.group.derivative.append(back.fwd.emitter.step(op, back.place(node, "CD"), attrs, **slots))
    back.contribute(node, dx)


def _activation(op: OpCode) -> Callable[[Backward, Node, Any], None]:
    """Return the rule of an activation whose derivative follows from its value."""

    def rule(back: Backward, node: Node, attrs: Any) -> None:
        _one_step(back, node, op, y=back.fwd.value(node.id))

    return rule


def _maxpool(back: Backward, node: Node, attrs: Any) -> None:
    """Scatter to the places of the maxima."""
    (idx,) = back.fwd.saved[node.id]
    _one_step(back, node, OpCode.MAXPOOL2D_GRAD, attrs=pool_attrs(attrs), idx=idx)


def _avgpool(back: Backward, node: Node, attrs: Any) -> None:
    """Spread over the window."""
    _one_step(back, node, OpCode.AVGPOOL2D_GRAD, attrs=pool_attrs(attrs))


def _dropout(back: Backward, node: Node, attrs: DropoutAttrs) -> None:
    """Apply the same mask, or nothing."""
    if back.fwd.passes_through(node):
        back.contribute(node, back.passed(node))
    else:
        _one_step(back, node, OpCode.DROPOUT_GRAD, attrs=dropout_attrs(node, attrs))


def _flatten(back: Backward, node: Node, attrs: Any) -> None:
    """Pass the same bytes on."""
    back.contribute(node, back.passed(node))


def _to_nchw(back: Backward, node: Node, attrs: Any) -> None:
    """Bring the gradient back into arena order."""
    dims, layout = back.fwd.image_layout(node.inputs[0])
    dx, dy = back.derivative(back.contribution_name(node), dims, layout), back.gradient(node)
    op, place = OpCode.NCHW_TO_NHWC, back.place(node, "CD")
    back.group.derivative.append(back.fwd.emitter.step(op, place, x=dy, y=dx))
    back.contribute(node, dx)


def _add(back: Backward, node: Node, attrs: Any) -> None:
    """Pass the same tensor to every operand that needs it; nothing is copied."""
    dy = back.passed(node)
    for position, source in enumerate(node.inputs):
        back.contribute(node, dy if back.fwd.needs[source] else None, position)


def _batchnorm(back: Backward, node: Node, attrs: BatchNorm2dAttrs) -> None:
    """Parameters and input in one step."""
    fwd, dx = back.fwd, back.input_gradient(node)
    slots = {
        "dgamma": back.param_gradient(node, "weight"),
        "dbeta": back.param_gradient(node, "bias"),
        "gamma": fwd.param(node, "weight"),
        "dy": back.gradient(node),
        "dx": dx,
    }
    reads_x = attrs.training or slots["dgamma"] is not None
    slots["x"] = fwd.source(node) if reads_x else None
    trains = slots["dgamma"] is not None or slots["dbeta"] is not None
    place = back.place(node, "CG" if trains else "CD")
    if attrs.training:
        slots["save_mean"], slots["save_invstd"] = fwd.saved[node.id]
        step = fwd.emitter.step(OpCode.BATCHNORM2D_GRAD, place, None, **slots)
    else:
        slots["mean"] = fwd.param(node, "running_mean")
        slots["var"] = fwd.param(node, "running_var")
        step = fwd.emitter.step(OpCode.BATCHNORM2D_EVAL_GRAD, place, {"eps": attrs.eps}, **slots)
    back.group.gradient.append(step)
    back.finish_params(node)
    back.contribute(node, dx)


_RULES: dict[NodeKind, Callable[[Backward, Node, Any], None]] = {
    NodeKind.LINEAR: _dense(OpCode.LINEAR_GRAD_W, OpCode.LINEAR_GRAD_X),
    NodeKind.CONV2D: _dense(OpCode.CONV2D_GRAD_W, OpCode.CONV2D_GRAD_X),
    NodeKind.MAXPOOL2D: _maxpool,
    NodeKind.AVGPOOL2D: _avgpool,
    NodeKind.BATCHNORM2D: _batchnorm,
    NodeKind.RELU: _activation(OpCode.RELU_GRAD),
    NodeKind.TANH: _activation(OpCode.TANH_GRAD),
    NodeKind.DROPOUT: _dropout,
    NodeKind.FLATTEN: _flatten,
    NodeKind.ADD: _add,
    NodeKind.TO_NCHW: _to_nchw,
}


def backward_of(fwd: Forward, output_gradient: TensorId) -> list[LayerGradients]:
    """Return the backward steps of every node, by node id."""
    back = Backward(fwd, output_gradient)
    visited = [back.visit(node) for node in reversed(fwd.graph.nodes)]
    return visited[::-1]
