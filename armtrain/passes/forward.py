"""Forward steps of a graph in one phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from armtrain.ir.graph import (
    DropoutAttrs,
    Graph,
    LayerNormAttrs,
    Node,
    NodeKind,
)
from armtrain.ir.program import Layout, Phase, Role, Step, TensorId
from armtrain.passes.emit import Emitter, Place
from armtrain.passes.layout import Image, image_layout, moves_nothing, value_layout

__all__ = ["Forward", "ForwardRule", "emit_forward", "row_dims"]


@dataclass
class Forward:
    """A graph being lowered in one phase.

    Attributes
    ----------
    emitter : Emitter
    graph : Graph
    orders : tuple of Image
        Feature order per node.
    params : dict of str to TensorId
        Tensors of parameters and buffers.
    phase : Phase
    needs : tuple of bool
        Whether the gradient of a node's value is needed; all False but in TRAIN.
    values : dict of int to TensorId
        Node id to the tensor that holds its bytes; `value` gives the right dimensions.
    saved : dict of int to tuple of TensorId
        Node id to what its backward pass reads besides values.
    """

    emitter: Emitter
    graph: Graph
    orders: tuple[Image, ...]
    params: dict[str, TensorId]
    phase: Phase
    needs: tuple[bool, ...]
    values: dict[int, TensorId] = field(default_factory=dict)
    saved: dict[int, tuple[TensorId, ...]] = field(default_factory=dict)

    def place(self, node: Node, kind: str = "F") -> Place:
        """Return where steps of `node` belong."""
        return Place(self.phase, node.name, kind)

    def layout(self, node_id: int) -> tuple[tuple[int, ...], Layout]:
        """Return arena dimensions and layout of a node's value."""
        shape, order = self.graph.nodes[node_id].shape, self.orders[node_id]
        return value_layout(shape, order, self.graph.batch_size)

    def name(self, node_id: int) -> str:
        """Return the name of a node's value."""
        return "x" if node_id == 0 else f"{self.graph.nodes[node_id].name}.out"

    def param(self, node: Node, slot: str) -> TensorId | None:
        """Return the tensor of a parameter, or None."""
        name = node.param(slot)
        return None if name is None else self.params[name]

    def source(self, node: Node, position: int = 0) -> TensorId:
        """Return the tensor of an input's value."""
        return self.value(node.inputs[position])

    def value(self, node_id: int) -> TensorId:
        """Return the tensor of a node's value in the node's own dimensions."""
        dims, layout = self.layout(node_id)
        return self.emitter.view(self.values[node_id], self.name(node_id), dims, layout, self.phase)

    def axis(self, node_id: int, dim: int) -> int:
        """Return the axis in the arena of a dimension, but the batch's, of a node's value."""
        rank = len(self.graph.nodes[node_id].shape)
        if self.orders[node_id] is None or rank == 2:
            return dim + len(self.layout(node_id)[0]) - rank
        return 3 if dim == 1 else dim + 3 - rank

    def as_images(self, node_id: int) -> tuple[tuple[int, ...], Layout]:
        """Return arena dimensions and layout of a value for a step that works on images only."""
        return image_layout(self.graph.nodes[node_id].shape, self.orders[node_id])

    def images(self, node: Node) -> TensorId:
        """Return the tensor of the first input's value as images."""
        source = node.inputs[0]
        dims, layout = self.as_images(source)
        return self.emitter.view(self.values[source], self.name(source), dims, layout, self.phase)

    def source_needs(self, node: Node, position: int = 0) -> bool:
        """Whether the gradient of an input is needed."""
        return self.needs[node.inputs[position]]

    def result(self, node: Node, made: tuple[tuple[int, ...], Layout] | None = None) -> TensorId:
        """Make the tensor of a node's value, in other dimensions and layout if they are `made`."""
        role, name = Role.ACTIVATION, self.name(node.id)
        dims, layout = made or self.layout(node.id)
        if self.phase == Phase.PREDICT and node.id == self.producer(self.graph.output):
            role, name, layout = Role.OUTPUT, "output", self.layout(self.graph.output)[1]
        tensor = self.emitter.tensor(
            name, role, dims, phase=self.phase, layout=layout, batched=True
        )
        self.values[node.id] = tensor
        return tensor

    def passes_through(self, node: Node) -> bool:
        """Whether a node's value is its input's bytes."""
        if isinstance(node.attrs, DropoutAttrs):
            return not _drops(node.attrs, self.phase)
        source = node.inputs[0] if node.inputs else node.id
        order = self.orders[source]
        return moves_nothing(node, (self.graph.nodes[source], order), self.graph.batch_size)

    def show(self, node: Node) -> list[Step]:
        """No step: the value is a view; it becomes a tensor when somebody reads it."""
        self.values[node.id] = self.values[node.inputs[0]]
        return []

    def producer(self, node_id: int) -> int:
        """Return the node that writes the bytes of a node's value."""
        node = self.graph.nodes[node_id]
        return self.producer(node.inputs[0]) if self.passes_through(node) else node_id


ForwardRule = Callable[[Forward, Node, Any], list[Step]]
"""The steps of one node; `fwd.values` and `fwd.saved` are filled on the way."""


def _drops(attrs: DropoutAttrs, phase: Phase) -> bool:
    """Whether a dropout drops anything in `phase`."""
    return phase == Phase.TRAIN and attrs.training and attrs.p > 0.0


def row_dims(dims: tuple[int, ...], attrs: LayerNormAttrs) -> tuple[int, ...]:
    """Return dimensions of a value with those that are normalised together as one."""
    return *dims[: -len(attrs.over)], prod(attrs.over)


def _read_dims(fwd: Forward, node: Node, source: int) -> tuple[int, ...]:
    """Return the dimensions in which a node reads a value that is the input's bytes."""
    if isinstance(node.attrs, LayerNormAttrs):
        return row_dims(fwd.layout(source)[0], node.attrs)
    images = node.kind in (NodeKind.TO_NCHW, NodeKind.BATCHNORM2D)
    return (fwd.as_images(source) if images else fwd.layout(source))[0]


def _input_dims(fwd: Forward) -> tuple[int, ...]:
    """Return the input's dimensions: flat ones if every step reads it flattened.

    Some step must name the input itself, not a view of it.
    """
    dims, _ = fwd.layout(0)
    read = [
        _read_dims(fwd, node, source)
        for node in fwd.graph.nodes
        if node.kind != NodeKind.INPUT and not fwd.passes_through(node)
        for source in node.inputs
        if fwd.producer(source) == 0
    ]
    return dims if dims in read or not read else read[0]


def emit_forward(
    fwd: Forward, rules: Mapping[NodeKind, ForwardRule]
) -> tuple[tuple[Step, ...], ...]:
    """Return the forward steps of every node, filling `fwd.values` and `fwd.saved`."""
    dims, layout = _input_dims(fwd), fwd.layout(0)[1]
    if len(dims) > len(layout.view) == 2:  # features, read as images of one pixel
        layout = fwd.as_images(0)[1]
    fwd.values[0] = fwd.emitter.tensor(
        "x", Role.INPUT, dims, phase=fwd.phase, layout=layout, batched=True
    )
    made = (rules[node.kind](fwd, node, node.attrs) for node in fwd.graph.nodes[1:])
    return ((), *(tuple(steps) for steps in made))
