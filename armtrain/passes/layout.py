"""Arena layouts: channels-last images, and flattening for free.

A value of shape (N, C, H, W) lies in the arena as (N, H, W, C), a sequence (N, C, L) like an image
of height 1. Flattening it moves nothing: the
features then are in H, W, C order, which element-wise operations ignore and a following linear
layer folds into the order of its weight's rows. Where features must be in torch's order (a loss
over classes, a sum with another order, a weight shared by layers that see different orders) a
`to_nchw` node is inserted.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TypeAlias

from armtrain.errors import ShapeError
from armtrain.ir.graph import Conv2dAttrs, ConvTranspose2dAttrs, Graph, Node, NodeKind, ToNchwAttrs
from armtrain.ir.program import Layout

__all__ = [
    "Image",
    "feature_order",
    "image_layout",
    "param_layout",
    "settle_layouts",
    "value_layout",
]

Image: TypeAlias = tuple[int, int, int] | None
"""(C, H, W) of a flattened image that is in H, W, C order; None for torch's order."""

_ELEMENTWISE = frozenset({NodeKind.RELU, NodeKind.TANH, NodeKind.ACTIVATION, NodeKind.DROPOUT})


_WEIGHTED = frozenset({NodeKind.CONV2D, NodeKind.CONV_TRANSPOSE2D, NodeKind.LINEAR})


def _image_of(node: Node, sources: list[tuple[Node, Image]]) -> Image:
    """Return the feature order of a node's value."""
    if node.kind == NodeKind.FLATTEN:
        shape = sources[0][0].shape
        if len(shape) > 2 and shape[1] > 1 and prod(shape[2:]) > 1:
            return shape[1], prod(shape[2:-1]), shape[-1]
        return None
    if node.kind in _ELEMENTWISE or node.kind == NodeKind.ADD:
        return sources[0][1]
    return None


def feature_order(graph: Graph) -> tuple[Image, ...]:
    """Return per node the feature order of its value."""
    orders: list[Image] = []
    for node in graph.nodes:
        orders.append(_image_of(node, [(graph.nodes[i], orders[i]) for i in node.inputs]))
    return tuple(orders)


def _contested(graph: Graph) -> frozenset[str]:
    """Return the linear weights that are used on values of different feature orders."""
    orders = feature_order(graph)
    seen: dict[str, set[Image]] = {}
    for node in graph.nodes:
        name = node.param("weight")
        if node.kind == NodeKind.LINEAR and name is not None:
            seen.setdefault(name, set()).add(orders[node.inputs[0]])
    return frozenset(name for name, found in seen.items() if len(found) > 1)


class _Rewriter:
    """Copies a graph, inserting `to_nchw` where features must be in torch's order."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.orders: list[Image] = []
        self.ids: dict[int, int] = {}
        self._plain: dict[int, int] = {}
        self._contested = _contested(graph)

    def _append(self, node: Node) -> int:
        """Append a node whose inputs are new ids."""
        sources = [(self.nodes[i], self.orders[i]) for i in node.inputs]
        self.nodes.append(replace(node, id=len(self.nodes)))
        self.orders.append(_image_of(node, sources))
        return len(self.nodes) - 1

    def plain(self, new_id: int) -> int:
        """Return the id of the value of `new_id` in torch's order."""
        if self.orders[new_id] is None:
            return new_id
        if new_id not in self._plain:
            source = self.nodes[new_id]
            name = f"{source.name}.to_nchw"
            self._plain[new_id] = self._append(
                Node(0, name, ToNchwAttrs(), (new_id,), source.shape)
            )
        return self._plain[new_id]

    def _needs_plain(self, node: Node, inputs: list[int]) -> bool:
        """Whether a node's inputs must be in torch's order."""
        if node.kind == NodeKind.ADD:
            return self.orders[inputs[0]] != self.orders[inputs[1]]
        if node.kind == NodeKind.LINEAR:
            return node.param("weight") in self._contested
        return node.kind == NodeKind.BATCHNORM2D

    def copy(self, node: Node) -> None:
        """Append a node of the old graph."""
        inputs = [self.ids[i] for i in node.inputs]
        if self._needs_plain(node, inputs):
            inputs = [self.plain(i) for i in inputs]
        self.ids[node.id] = self._append(replace(node, inputs=tuple(inputs)))


def settle_layouts(graph: Graph, plain_output: bool) -> Graph:
    """Return `graph` with `to_nchw` nodes where an order cannot be folded.

    Parameters
    ----------
    graph : Graph
    plain_output : bool
        The loss reads the output in torch's order.
    """
    rewriter = _Rewriter(graph)
    for node in graph.nodes:
        rewriter.copy(node)
    output = rewriter.ids[graph.output]
    if plain_output:
        output = rewriter.plain(output)
    return replace(graph, nodes=tuple(rewriter.nodes), output=output)


def value_layout(shape: tuple[int, ...], image: Image) -> tuple[tuple[int, ...], Layout]:
    """Return arena dimensions and layout of a value."""
    if image is not None:
        return shape, Layout(shape, (shape[0], *image), (0, 2, 3, 1))
    if len(shape) == 4:
        n, channels, height, width = shape
        return (n, height, width, channels), Layout(shape, shape, (0, 2, 3, 1))
    if len(shape) == 3:
        n, channels, length = shape
        return (n, 1, length, channels), Layout(shape, (n, channels, 1, length), (0, 2, 3, 1))
    return shape, Layout.plain(shape)


def image_layout(shape: tuple[int, ...]) -> tuple[tuple[int, ...], Layout]:
    """Return arena dimensions and layout of a value as images, features (N, C) as single pixels."""
    if len(shape) > 2:
        return value_layout(shape, None)
    n, channels = shape
    return (n, 1, 1, channels), Layout(shape, (n, channels, 1, 1), (0, 2, 3, 1))


def _conv_layout(shape: tuple[int, ...], groups: int) -> tuple[tuple[int, ...], Layout]:
    """(O, C/G, KH, KW) lies as (G, KH, KW, C/G, O/G), (O, C/G, K) as with KH = 1."""
    outputs, channels, width, height = *shape[:2], shape[-1], prod(shape[2:-1])
    view = (groups, outputs // groups, channels, height, width)
    dims = (groups, height, width, channels, outputs // groups)
    return dims, Layout(shape, view, (0, 3, 4, 2, 1))


def _linear_layout(shape: tuple[int, ...], image: Image) -> tuple[tuple[int, ...], Layout]:
    """(O, I) lies as (I, O), the rows in the feature order of the input."""
    dims = (shape[1], shape[0])
    if image is None:
        return dims, Layout(shape, shape, (1, 0))
    return dims, Layout(shape, (shape[0], *image), (2, 3, 1, 0))


def param_layout(
    graph: Graph, orders: tuple[Image, ...]
) -> dict[str, tuple[tuple[int, ...], Layout]]:
    """Return arena dimensions and layout of every parameter and buffer.

    Raises
    ------
    ShapeError
        Two layers share a weight that each needs in another layout.
    """
    layouts = {p.name: (p.shape, Layout.plain(p.shape)) for p in graph.params}
    chosen: dict[str, str] = {}
    for node in graph.nodes:
        name = node.param("weight")
        if name is None or node.kind not in _WEIGHTED:
            continue
        shape = layouts[name][1].shape
        if isinstance(node.attrs, Conv2dAttrs | ConvTranspose2dAttrs):
            layout = _conv_layout(shape, node.attrs.groups)
        else:
            layout = _linear_layout(shape, orders[node.inputs[0]])
        if name in chosen and layouts[name] != layout:
            raise ShapeError(
                f"layers '{chosen[name]}' and '{node.name}' share '{name}' but differ in groups; "
                "a shared convolution needs the same groups everywhere"
            )
        layouts[name] = layout
        chosen.setdefault(name, node.name)
    return layouts
