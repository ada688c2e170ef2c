"""Forward steps of a graph in one phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from armtrain.dtypes import DType
from armtrain.ir.graph import (
    AvgPool2dAttrs,
    BatchNorm2dAttrs,
    Conv2dAttrs,
    DropoutAttrs,
    Graph,
    MaxPool2dAttrs,
    Node,
    NodeKind,
)
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Layout, Phase, Role, Step, TensorId
from armtrain.passes.emit import Emitter, Place, stream_of_name
from armtrain.passes.layout import Image, value_layout

__all__ = ["Forward", "conv_attrs", "dropout_attrs", "drops", "emit_forward", "pool_attrs"]


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
        return value_layout(self.graph.nodes[node_id].shape, self.orders[node_id])

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

    def image_layout(self, node_id: int) -> tuple[tuple[int, ...], Layout]:
        """Return arena dimensions and layout of a flattened image, taken as the image it is."""
        order, node = self.orders[node_id], self.graph.nodes[node_id]
        assert order is not None, f"'{node.name}' is in torch's order"
        return value_layout((node.shape[0], *order), None)

    def source_needs(self, node: Node, position: int = 0) -> bool:
        """Whether the gradient of an input is needed."""
        return self.needs[node.inputs[position]]

    def result(self, node: Node) -> TensorId:
        """Make the tensor of a node's value."""
        role, name = Role.ACTIVATION, self.name(node.id)
        dims, layout = self.layout(node.id)
        if self.phase == Phase.PREDICT and node.id == self.producer(self.graph.output):
            role, name, layout = Role.OUTPUT, "output", self._output_layout(dims)
        tensor = self.emitter.tensor(
            name, role, dims, phase=self.phase, layout=layout, batched=True
        )
        self.values[node.id] = tensor
        return tensor

    def passes_through(self, node: Node) -> bool:
        """Whether a node's value is its input's bytes."""
        return node.kind == NodeKind.FLATTEN or (
            isinstance(node.attrs, DropoutAttrs) and not drops(node.attrs, self.phase)
        )

    def producer(self, node_id: int) -> int:
        """Return the node that writes the bytes of a node's value."""
        node = self.graph.nodes[node_id]
        return self.producer(node.inputs[0]) if self.passes_through(node) else node_id

    def _output_layout(self, dims: tuple[int, ...]) -> Layout:
        """Return the layout of the network's output over its producer's dimensions."""
        layout = self.layout(self.graph.output)[1]
        if len(dims) == 4 and len(layout.view) == 2:
            n, height, width, channels = dims
            return Layout(layout.shape, (n, channels, height, width), (0, 2, 3, 1))
        return layout


def drops(attrs: DropoutAttrs, phase: Phase) -> bool:
    """Whether a dropout drops anything in `phase`."""
    return phase == Phase.TRAIN and attrs.training and attrs.p > 0.0


def conv_attrs(attrs: Conv2dAttrs) -> dict[str, int | float]:
    """Return the attributes of convolution steps."""
    (stride_h, stride_w), (pad_h, pad_w) = attrs.stride, attrs.padding
    dil_h, dil_w = attrs.dilation
    return {
        "stride_h": stride_h,
        "stride_w": stride_w,
        "pad_h": pad_h,
        "pad_w": pad_w,
        "dil_h": dil_h,
        "dil_w": dil_w,
        "groups": attrs.groups,
    }


def pool_attrs(attrs: MaxPool2dAttrs | AvgPool2dAttrs) -> dict[str, int | float]:
    """Return the attributes of pooling steps."""
    values: dict[str, int | float] = {
        "kernel_h": attrs.kernel[0],
        "kernel_w": attrs.kernel[1],
        "stride_h": attrs.stride[0],
        "stride_w": attrs.stride[1],
        "pad_h": attrs.padding[0],
        "pad_w": attrs.padding[1],
    }
    if isinstance(attrs, MaxPool2dAttrs):
        return {**values, "dil_h": attrs.dilation[0], "dil_w": attrs.dilation[1]}
    return {**values, "count_include_pad": int(attrs.count_include_pad)}


def dropout_attrs(node: Node, attrs: DropoutAttrs) -> dict[str, int | float]:
    """Return the attributes of dropout steps; the random stream is keyed by the node's name."""
    return {"p": attrs.p, "stream": stream_of_name(node.name)}


def _dense(op: OpCode) -> Callable[[Forward, Node, Any], list[Step]]:
    """Return the rule of a layer with weight and bias."""

    def rule(fwd: Forward, node: Node, attrs: Any) -> list[Step]:
        values = conv_attrs(attrs) if isinstance(attrs, Conv2dAttrs) else None
        return [
            fwd.emitter.step(
                op,
                fwd.place(node),
                values,
                x=fwd.source(node),
                w=fwd.param(node, "weight"),
                b=fwd.param(node, "bias"),
                y=fwd.result(node),
            )
        ]

    return rule


def _pointwise(op: OpCode) -> Callable[[Forward, Node, Any], list[Step]]:
    """Return the rule of a one-operand operation without attributes."""

    def rule(fwd: Forward, node: Node, attrs: Any) -> list[Step]:
        x = fwd.source(node)
        return [fwd.emitter.step(op, fwd.place(node), x=x, y=fwd.result(node))]

    return rule


def _to_nchw(fwd: Forward, node: Node, attrs: Any) -> list[Step]:
    """Bring a flattened image into torch's order."""
    source = node.inputs[0]
    dims, layout = fwd.image_layout(source)
    name = f"{fwd.name(source)}.image"
    x = fwd.emitter.view(fwd.values[source], name, dims, layout, fwd.phase)
    return [fwd.emitter.step(OpCode.NHWC_TO_NCHW, fwd.place(node), x=x, y=fwd.result(node))]


def _maxpool(fwd: Forward, node: Node, attrs: MaxPool2dAttrs) -> list[Step]:
    """Keep the places of the maxima if the gradient must find them."""
    x, y, idx = fwd.source(node), fwd.result(node), None
    if fwd.source_needs(node):
        dims, layout = fwd.layout(node.id)
        idx = fwd.emitter.tensor(
            f"{node.name}.idx", Role.SAVED, dims, layout=layout, dtype=DType.U8, batched=True
        )
        fwd.saved[node.id] = (idx,)
    op = OpCode.MAXPOOL2D_FWD
    return [fwd.emitter.step(op, fwd.place(node), pool_attrs(attrs), x=x, y=y, idx=idx)]


def _avgpool(fwd: Forward, node: Node, attrs: AvgPool2dAttrs) -> list[Step]:
    """Window mean."""
    op, x = OpCode.AVGPOOL2D_FWD, fwd.source(node)
    return [fwd.emitter.step(op, fwd.place(node), pool_attrs(attrs), x=x, y=fwd.result(node))]


def _batchnorm(fwd: Forward, node: Node, attrs: BatchNorm2dAttrs) -> list[Step]:
    """Batch statistics in training steps, running ones otherwise."""
    slots = {
        "x": fwd.source(node),
        "gamma": fwd.param(node, "weight"),
        "beta": fwd.param(node, "bias"),
        "mean": fwd.param(node, "running_mean"),
        "var": fwd.param(node, "running_var"),
        "y": fwd.result(node),
    }
    trains = fwd.phase == Phase.TRAIN and attrs.training
    if slots["mean"] is not None and not trains:
        op = OpCode.BATCHNORM2D_EVAL
        return [fwd.emitter.step(op, fwd.place(node), {"eps": attrs.eps}, **slots)]
    if not trains:
        slots["mean"] = slots["var"] = None
    dims = (node.shape[1],)
    saved = tuple(
        fwd.emitter.tensor(f"{node.name}.{word}", Role.SAVED, dims, phase=fwd.phase)
        for word in ("save_mean", "save_invstd")
    )
    fwd.saved[node.id] = saved
    slots |= {"save_mean": saved[0], "save_invstd": saved[1]}
    numbers = {"eps": attrs.eps, "momentum": attrs.momentum}
    return [fwd.emitter.step(OpCode.BATCHNORM2D_FWD, fwd.place(node), numbers, **slots)]


def _dropout(fwd: Forward, node: Node, attrs: DropoutAttrs) -> list[Step]:
    """Drop, or show the input."""
    if fwd.passes_through(node):
        return _show(fwd, node, attrs)
    x, op = fwd.source(node), OpCode.DROPOUT_FWD
    values = dropout_attrs(node, attrs)
    return [fwd.emitter.step(op, fwd.place(node), values, x=x, y=fwd.result(node))]


def _show(fwd: Forward, node: Node, attrs: Any) -> list[Step]:
    """No step: the value is a view; it becomes a tensor when somebody reads it."""
    fwd.values[node.id] = fwd.values[node.inputs[0]]
    return []


def _add(fwd: Forward, node: Node, attrs: Any) -> list[Step]:
    """Sum of two values."""
    a, b = fwd.source(node, 0), fwd.source(node, 1)
    return [fwd.emitter.step(OpCode.ADD, fwd.place(node), a=a, b=b, y=fwd.result(node))]


_RULES: dict[NodeKind, Callable[[Forward, Node, Any], list[Step]]] = {
    NodeKind.LINEAR: _dense(OpCode.LINEAR_FWD),
    NodeKind.CONV2D: _dense(OpCode.CONV2D_FWD),
    NodeKind.MAXPOOL2D: _maxpool,
    NodeKind.AVGPOOL2D: _avgpool,
    NodeKind.BATCHNORM2D: _batchnorm,
    NodeKind.RELU: _pointwise(OpCode.RELU_FWD),
    NodeKind.TANH: _pointwise(OpCode.TANH_FWD),
    NodeKind.DROPOUT: _dropout,
    NodeKind.FLATTEN: _show,
    NodeKind.ADD: _add,
    NodeKind.TO_NCHW: _to_nchw,
}


def _input_dims(fwd: Forward) -> tuple[int, ...]:
    """Return the input's dimensions: flat ones if every step reads it flattened.

    Some step must name the input itself, not a view of it.
    """
    dims, _ = fwd.layout(0)
    read = [
        dims if node.kind == NodeKind.TO_NCHW else fwd.layout(source)[0]
        for node in fwd.graph.nodes
        if node.kind != NodeKind.INPUT and not fwd.passes_through(node)
        for source in node.inputs
        if fwd.producer(source) == 0
    ]
    return dims if dims in read or not read else read[0]


def emit_forward(fwd: Forward) -> tuple[tuple[Step, ...], ...]:
    """Return the forward steps of every node, filling `fwd.values` and `fwd.saved`."""
    _, layout = fwd.layout(0)
    fwd.values[0] = fwd.emitter.tensor(
        "x", Role.INPUT, _input_dims(fwd), phase=fwd.phase, layout=layout, batched=True
    )
    rules = (_RULES[node.kind](fwd, node, node.attrs) for node in fwd.graph.nodes[1:])
    return ((), *(tuple(steps) for steps in rules))
