"""The backward pass: for every forward node, the steps that differentiate it.

A value's gradient is the sum of one contribution per use. Contributions are completed one by one
and added in graph order of the uses, whatever order the backward pass visits them in, so that
sums never depend on scheduling. The same holds for parameters that several layers share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from armtrain.ir.graph import Node, NodeKind
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Layout, Role, Step, TensorId
from armtrain.passes.blocks import BlockProduct
from armtrain.passes.emit import Place
from armtrain.passes.forward import Forward

__all__ = ["Backward", "BackwardRule", "LayerGradients", "Region", "backward_of"]

Use = tuple[int, int]
"""(consumer id, input position): one use of a value."""

Region = Mapping[str, int]
"""The attributes of `PLACE` that say which part of a value a slice of it is."""


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
    indices : dict of str to TensorId
        Tables whose gradient has the rows of a batch alone, with the indices of these.
    blocks : list of BlockProduct
        Gradients that the update makes block by block.
    """

    gradient: list[Step] = field(default_factory=list)
    derivative: list[Step] = field(default_factory=list)
    complete: list[tuple[str, TensorId]] = field(default_factory=list)
    indices: dict[str, TensorId] = field(default_factory=dict)
    blocks: list[BlockProduct] = field(default_factory=list)


class Backward:
    """Visits nodes last to first and collects their gradients."""

    def __init__(
        self,
        fwd: Forward,
        rules: Mapping[NodeKind, BackwardRule],
        output_gradient: TensorId,
        by_rows: Collection[str],
        by_blocks: Collection[str],
    ) -> None:
        self.fwd = fwd
        self._by_rows = by_rows
        self._by_blocks = by_blocks
        self._rules = rules
        self.group = LayerGradients()
        self._uses = fwd.graph.consumers()
        self._trained = {p.name for p in fwd.graph.params if p.trained}
        self._param_uses = Counter(name for node in fwd.graph.nodes for _, name in node.params)
        self._shared = {name for name, uses in self._param_uses.items() if uses > 1}
        self._contributions: dict[int, dict[Use, tuple[TensorId, Region | None]]] = {}
        self._param_parts: list[tuple[str, TensorId]] = []
        self._param_sums: dict[str, TensorId] = {}
        self._gradients = {fwd.graph.output: output_gradient}

    def visit(self, node: Node) -> LayerGradients:
        """Return the backward steps of `node`; every later node has been visited."""
        self.group = LayerGradients()
        if self.fwd.needs[node.id] and node.kind != NodeKind.INPUT:
            self._rules[node.kind](self, node, node.attrs)
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

    def input_gradient(self, node: Node, position: int = 0) -> TensorId | None:
        """Make the tensor of a contribution to an input's gradient; None if not needed."""
        source = node.inputs[position]
        if not self.fwd.needs[source]:
            return None
        return self._derivative(source, self.contribution_name(node, position))

    def contribution_name(self, node: Node, position: int = 0) -> str:
        """Return the name of a contribution to an input's gradient."""
        source = node.inputs[position]
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

    def contribute(
        self,
        node: Node,
        tensor: TensorId | None,
        position: int = 0,
        region: Region | None = None,
    ) -> None:
        """Record a contribution, to a part if there is a `region`; the last one adds up all.

        Parts stay as small as they are until then: the sum takes one tensor of the whole value's
        size, and each part is added in place.
        """
        if tensor is None:
            return
        source = node.inputs[position]
        parts = self._contributions.setdefault(source, {})
        parts[node.id, position] = tensor, region
        if len(parts) == len(self._uses[source]):
            ordered = [parts[use] for use in self._uses[source]]
            self._gradients[source] = self._sum(source, self.place(node, "CD"), ordered)

    def _sum(
        self, source: int, place: Place, parts: list[tuple[TensorId, Region | None]]
    ) -> TensorId:
        """Append the steps that add contributions up in order, and return the sum."""
        total: TensorId | None = None
        for part, region in parts:
            if region is None and total is None:
                total = part
                continue
            a = None if total is None else self._shaped(source, total)
            total = self._derivative(source, f"{self.fwd.name(source)}.grad")
            if region is None:
                b = self._shaped(source, part)
                step = self.fwd.emitter.step(OpCode.ADD, place, a=a, b=b, y=total)
            else:
                values = {**region, "add": int(a is not None)}
                step = self.fwd.emitter.step(OpCode.PLACE, place, values, x=part, whole=a, y=total)
            self.group.derivative.append(step)
        assert total is not None, "a value without uses has no gradient"
        return total

    def param_gradient(self, node: Node, slot: str) -> TensorId | None:
        """Make the tensor of a contribution to a parameter's gradient; None if frozen."""
        if not self.trains(node, slot):
            return None
        param = node.param(slot)
        assert param is not None
        tensor = self._param_tensor(param, f"@{node.name}" if param in self._shared else "")
        self._param_parts.append((param, tensor))
        return tensor

    def leaves_to_update(
        self, node: Node, x: TensorId, dy: TensorId, attrs: Mapping[str, int | float]
    ) -> bool:
        """Whether the update of a node's weight makes its gradient; notes the product if so."""
        param = node.param("weight")
        if param is None or param not in self._by_blocks:
            return False
        self.group.blocks.append(BlockProduct(param, x, dy, attrs))
        return True

    def rows_gradient(self, node: Node, slot: str, indices: TensorId) -> TensorId | None:
        """Make the tensor of a table's gradient in the rows of a batch alone.

        None: the table is frozen, has other uses or no more rows than the batch, or its update
        changes rows whose gradient is 0.
        """
        param, tensors = node.param(slot), self.fwd.emitter.tensors
        if param is None or param not in self._by_rows or param in self._shared:
            return None
        like = tensors[self.gradient(node)]
        if prod(tensors[indices].dims) >= tensors[self.fwd.params[param]].dims[0]:
            return None
        name = f"{param}.grad"
        rows = self.fwd.emitter.tensor(
            name, Role.GRADIENT, like.dims, layout=like.layout, batched=True
        )
        self._param_parts.append((param, rows))
        self.group.indices[param] = indices
        return rows

    def _param_tensor(self, param: str, suffix: str) -> TensorId:
        """Make a tensor like a parameter for its gradient."""
        like = self.fwd.emitter.tensors[self.fwd.params[param]]
        name = f"{param}.grad{suffix}"
        return self.fwd.emitter.tensor(name, Role.GRADIENT, like.dims, layout=like.layout)

    def finish_params(self, node: Node) -> None:
        """Add each contribution of a node to its parameters' gradients as it is made.

        Nodes are visited last to first, whatever else is scheduled, so the sum has one order; of
        a weight that many steps share, no more than the sum and one contribution are there.
        """
        parts, self._param_parts = self._param_parts, []
        for param, part in parts:
            total = self._param_sums.get(param)
            if total is not None:
                result = self._param_tensor(param, "")
                step = self.fwd.emitter.step(
                    OpCode.ADD, self.place(node, "CG"), a=total, b=part, y=result
                )
                self.group.gradient.append(step)
                total = result
            self._param_sums[param] = part if total is None else total
            self._param_uses[param] -= 1
            if not self._param_uses[param]:
                self.group.complete.append((param, self._param_sums[param]))

    def sole_user(self, node: Node) -> Node | None:
        """Return the only node that uses a node's value, and uses it once."""
        uses = self._uses[node.id]
        return self.fwd.graph.nodes[uses[0][0]] if len(uses) == 1 else None

    def one_step(
        self, node: Node, op: OpCode, attrs: Any = None, dy: TensorId | None = None, **slots: Any
    ) -> None:
        """Append the one step of a layer without parameters; `dy` may stand for its gradient."""
        dx = self.input_gradient(node)
        slots |= {"dy": self.gradient(node) if dy is None else dy, "dx": dx}
        step = self.fwd.emitter.step(op, self.place(node, "CD"), attrs, **slots)
        self.group.derivative.append(step)
        self.contribute(node, dx)


BackwardRule = Callable[[Backward, Node, Any], None]
"""Appends the backward steps of one node to `back.group` and contributes to its inputs."""


def backward_of(
    fwd: Forward,
    rules: Mapping[NodeKind, BackwardRule],
    output_gradient: TensorId,
    by_rows: Collection[str] = (),
    by_blocks: Collection[str] = (),
) -> list[LayerGradients]:
    """Return the backward steps of every node, by node id.

    Parameters
    ----------
    fwd : Forward
    rules : mapping of NodeKind to BackwardRule
    output_gradient : TensorId
    by_rows : collection of str
        Trained parameters that an update may change row by row: those with a gradient.
    by_blocks : collection of str
        Weights whose update makes their gradient, block by block.
    """
    back = Backward(fwd, rules, output_gradient, by_rows, by_blocks)
    visited = [back.visit(node) for node in reversed(fwd.graph.nodes)]
    return visited[::-1]
