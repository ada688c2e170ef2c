"""Arena layouts: channels-last images, everything else in torch's order, and what moves nothing.

The order of a value is a fact of its node. What image layers make, (N, C, H, W), lies as
(N, H, W, C), a sequence of theirs (N, C, L) like an image of height 1; all other values, as
sequences (N, L, D) or attention heads (N, H, L, D), lie in torch's order. Element by element an
order is inherited. Flattening an image moves nothing: the features then are in H, W, C order, which
a following linear layer folds into the order of its weight's rows. A permutation moves nothing
either where the other order of the same bytes is what it asks for. Where a consumer needs an order
that its input does not have (a loss over classes, a convolution of what was a sequence of features)
a `to_nchw` or `to_nhwc` node is inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

from armtrain.errors import ShapeError
from armtrain.ir.graph import (
    Conv2dAttrs,
    ConvTranspose2dAttrs,
    Graph,
    MatmulAttrs,
    Node,
    NodeKind,
    PermuteAttrs,
    ReduceAttrs,
    ToNchwAttrs,
    ToNhwcAttrs,
)
from armtrain.ir.program import InitKind, Layout

__all__ = [
    "Image",
    "feature_order",
    "image_layout",
    "moves_nothing",
    "param_layout",
    "settle_layouts",
    "value_layout",
]

Image: TypeAlias = tuple[int, int, int] | None
"""(C, H, W) of a value that lies as (N, H, W, C), also if it is a sequence or was flattened; None
for torch's order."""

Source: TypeAlias = tuple[Node, Image]
"""An input and its order."""

_PLAIN, _IMAGE = "plain", "image"

_ELEMENTWISE = frozenset(
    {NodeKind.RELU, NodeKind.TANH, NodeKind.ACTIVATION, NodeKind.DROPOUT}
    | {NodeKind.AFFINE, NodeKind.POWER, NodeKind.FUNCTION, NodeKind.SOFTMAX}
)
"""Kinds whose numbers may be in any order; a flattened value has one axis for a softmax."""
_WINDOWS = frozenset(
    {NodeKind.CONV2D, NodeKind.MAXPOOL2D, NodeKind.AVGPOOL2D, NodeKind.BATCHNORM2D}
    | {NodeKind.CONV_TRANSPOSE2D, NodeKind.RESAMPLE2D}
)
"""Layers of images."""
_LAID_OUT = frozenset(
    {NodeKind.CONV2D, NodeKind.CONV_TRANSPOSE2D, NodeKind.LINEAR, NodeKind.COMBINE}
)
"""Kinds that say how a parameter lies."""


def _image_of(shape: tuple[int, ...]) -> Image:
    """Return the order of an image or a sequence of channels; features have torch's order only."""
    if len(shape) == 4:
        return shape[1], shape[2], shape[3]
    return (shape[1], 1, shape[2]) if len(shape) == 3 else None


def _moves(image: Image) -> bool:
    """Whether channels-last and torch's order differ in memory."""
    return image is not None and image[0] > 1 and image[1] * image[2] > 1


def _reshaped(image: Image, shape: tuple[int, ...]) -> Image:
    """Return the order under another shape of a value that is as it lies; see `_reshape_fits`."""
    if image is None or not _moves(image):
        return None
    return image if len(shape) == 2 else _image_of(shape)


def _reshape_fits(source: Source, shape: tuple[int, ...]) -> bool:
    """Whether the bytes of a value as it lies are some order of another shape."""
    node, image = source
    if image is None or not _moves(image):
        return True
    channels_stay = len(shape) in (3, 4) and shape[1] == image[0]
    return shape[0] == node.shape[0] and (len(shape) == 2 or channels_stay)


def _dense(axes: Sequence[int], shape: tuple[int, ...]) -> list[int]:
    """Return the axes that have more than one place."""
    return [axis for axis in axes if shape[axis] > 1]


def _permuted(node: Node, source: Source, batch: int) -> tuple[bool, Image]:
    """Return whether a permutation leaves the bytes where they are, and the order of its value."""
    attrs, shape = node.attrs, node.shape
    assert isinstance(attrs, PermuteAttrs)
    layout = value_layout(source[0].shape, source[1], source[0].shape[0])[1]
    if len(layout.view) != len(layout.shape):
        layout = replace(layout, perm=(0, 2, 1))  # a sequence of channels
    lying = [attrs.dims.index(axis) for axis in layout.perm]
    if _dense(lying, shape) == sorted(_dense(lying, shape)):
        return True, None
    image = _image_of(shape) if shape[0] == batch else None
    last = (0, *range(2, len(shape)), 1)
    free = image is not None and _dense(lying, shape) == _dense(last, shape)
    return free, image if free else None


def moves_nothing(node: Node, source: Source, batch: int) -> bool:
    """Whether a node that moves numbers leaves every one of them where it is."""
    if node.kind == NodeKind.PERMUTE:
        return _permuted(node, source, batch)[0]
    if node.kind == NodeKind.TO_NCHW:
        return not _moves(source[1])
    if node.kind == NodeKind.TO_NHWC:
        return not _moves(_image_of(node.shape))
    return node.kind in (NodeKind.FLATTEN, NodeKind.RESHAPE)


def _wants(node: Node, sources: list[Source], contested: frozenset[str]) -> str | None:
    """Return the order that a node needs of its inputs, None when it takes what it gets."""
    images = [image for _, image in sources]
    if node.kind in _WINDOWS:
        return _PLAIN if len(node.shape) == 2 else _IMAGE
    if node.kind in _ELEMENTWISE or node.kind in (NodeKind.PERMUTE, NodeKind.TO_NCHW):
        return None
    if node.kind == NodeKind.LINEAR and len(node.shape) == 2:
        return _PLAIN if node.param("weight") in contested else None
    if node.param("other") in contested:
        return _PLAIN
    if node.kind in (NodeKind.FLATTEN, NodeKind.RESHAPE):
        return None if _reshape_fits(sources[0], node.shape) else _PLAIN
    if node.kind in (NodeKind.ADD, NodeKind.COMBINE) and len(images) > 1 and len(set(images)) == 1:
        return None
    if node.kind == NodeKind.REDUCE and len(sources[0][0].shape) > 2:
        return None
    if node.kind in _BESIDE and len(node.shape) > 2 and any(images):
        return _IMAGE
    return _PLAIN


_BESIDE = frozenset({NodeKind.SLICE, NodeKind.CAT, NodeKind.ADD, NodeKind.COMBINE})
"""Kinds that work in either order, if all inputs have the same."""


def _made(node: Node, sources: list[Source], batch: int) -> Image:
    """Return the order of the value of a node whose inputs are as it wants them."""
    first = sources[0]
    if node.kind == NodeKind.PERMUTE:
        return _permuted(node, first, batch)[1]
    if node.kind in (NodeKind.FLATTEN, NodeKind.RESHAPE):
        return _reshaped(first[1], node.shape)
    if node.kind in _WINDOWS or node.kind == NodeKind.TO_NHWC:
        return _image_of(node.shape)
    if node.kind in _ELEMENTWISE:
        return first[1]
    if isinstance(node.attrs, ReduceAttrs) and first[1] is not None:
        stays = node.attrs.keepdim or 1 not in node.attrs.dims
        return _image_of(node.shape) if stays else None
    if node.kind in _BESIDE and any(image for _, image in sources):
        return _image_of(node.shape) if len(node.shape) > 2 else first[1]
    return None


def _input_order(graph: Graph) -> Image:
    """Return the order of the network's input, which the engine lays out as it fills the batch.

    Images lie channels-last unless nothing that reads them works on images; sequences do only for
    a layer of windows. What `settle_layouts` inserts changes neither answer.
    """
    shape = graph.nodes[0].shape
    readers = [node.kind for node in graph.nodes if 0 in node.inputs]
    windows = any(kind in _WINDOWS for kind in readers)
    either = _ELEMENTWISE | _BESIDE | {NodeKind.REDUCE, NodeKind.PERMUTE}
    either |= {NodeKind.FLATTEN, NodeKind.RESHAPE}
    if len(shape) == 4 and (not readers or any(kind in either for kind in readers)):
        return _image_of(shape)
    return _image_of(shape) if windows else None


def feature_order(graph: Graph) -> tuple[Image, ...]:
    """Return per node of a settled graph the order of its value."""
    orders: list[Image] = [_input_order(graph)]
    for node in graph.nodes[1:]:
        sources = [(graph.nodes[i], orders[i]) for i in node.inputs]
        orders.append(_made(node, sources, graph.batch_size))
    return tuple(orders)


def _contested(graph: Graph) -> frozenset[str]:
    """Return the linear weights that a settled graph uses in different orders of their rows."""
    orders = feature_order(graph)
    seen: dict[str, set[Image]] = {}
    for node in graph.nodes:
        name = node.param("weight")
        if node.kind == NodeKind.LINEAR and name is not None:
            flat = len(node.shape) == 2
            seen.setdefault(name, set()).add(orders[node.inputs[0]] if flat else None)
        if node.kind == NodeKind.EMBEDDING and name is not None:
            seen.setdefault(name, set()).add(None)
    return frozenset(name for name, found in seen.items() if len(found) > 1)


class _Rewriter:
    """Copies a graph, inserting `to_nchw` and `to_nhwc` where a value needs another order."""

    def __init__(self, graph: Graph, contested: frozenset[str]) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.orders: list[Image] = []
        self.ids: dict[int, int] = {}
        self._converted: dict[int, int] = {}
        self._contested = contested
        self.ways: dict[str, Callable[[int], int]] = {_PLAIN: self._plain, _IMAGE: self._image}

    def _append(self, node: Node) -> int:
        """Append a node whose inputs are new ids."""
        sources = [(self.nodes[i], self.orders[i]) for i in node.inputs]
        self.nodes.append(replace(node, id=len(self.nodes)))
        batch = self.graph.batch_size
        made = _made(node, sources, batch) if sources else _input_order(self.graph)
        self.orders.append(made)
        return len(self.nodes) - 1

    def _convert(self, new_id: int, attrs: ToNchwAttrs | ToNhwcAttrs) -> int:
        """Return the id of the value of `new_id` in the other order."""
        if new_id not in self._converted:
            source = self.nodes[new_id]
            name = f"{source.name}.{attrs.kind.value}"
            self._converted[new_id] = self._append(Node(0, name, attrs, (new_id,), source.shape))
        return self._converted[new_id]

    def _plain(self, new_id: int) -> int:
        """Return the id of the value of `new_id` in torch's order."""
        return new_id if self.orders[new_id] is None else self._convert(new_id, ToNchwAttrs())

    def _image(self, new_id: int) -> int:
        """Return the id of the value of `new_id` in channels-last order."""
        return self._convert(new_id, ToNhwcAttrs()) if self.orders[new_id] is None else new_id

    def _untransposed(self, node: Node) -> Node:
        """Return a matrix product that reads what its operands are transpositions of."""
        if not isinstance(node.attrs, MatmulAttrs):
            return node
        sources, turned = list(node.inputs), list(node.attrs.transposed)
        for position, source in enumerate(node.inputs):
            made = self.graph.nodes[source]
            rank = len(made.shape)
            swap = (*range(rank - 2), rank - 1, rank - 2)
            if isinstance(made.attrs, PermuteAttrs) and made.attrs.dims == swap:
                sources[position], turned[position] = made.inputs[0], not turned[position]
        return replace(node, attrs=MatmulAttrs((turned[0], turned[1])), inputs=tuple(sources))

    def copy(self, node: Node) -> None:
        """Append a node of the old graph."""
        node = self._untransposed(node)
        inputs = [self.ids[i] for i in node.inputs]
        sources = [(self.nodes[i], self.orders[i]) for i in inputs]
        order = _wants(node, sources, self._contested) if sources else None
        if order is not None:
            inputs = [self.ways[order](i) for i in inputs]
        self.ids[node.id] = self._append(replace(node, inputs=tuple(inputs)))


def settle_layouts(graph: Graph, output_order: str | None) -> Graph:
    """Return `graph` with `to_nchw` and `to_nhwc` nodes where an order cannot be folded.

    Parameters
    ----------
    graph : Graph
    output_order : str or None
        In which order the loss reads the output: torch's, 'plain', or 'image', channels-last.
    """
    fixed = frozenset(p.name for p in graph.params if p.init.kind == InitKind.SINUSOID)
    settled = _settled(graph, output_order, fixed)
    contested = _contested(settled)
    return _settled(graph, output_order, fixed | contested) if contested else settled


def _settled(graph: Graph, output_order: str | None, contested: frozenset[str]) -> Graph:
    """Settle a graph whose contested weights need their inputs in torch's order.

    So do parameters whose initial values depend on the place.
    """
    rewriter = _Rewriter(graph, contested)
    for node in graph.nodes:
        rewriter.copy(node)
    output = rewriter.ids[graph.output]
    if output_order is not None:
        output = rewriter.ways[output_order](output)
    return replace(graph, nodes=tuple(rewriter.nodes), output=output)


def value_layout(
    shape: tuple[int, ...], image: Image, batch: int
) -> tuple[tuple[int, ...], Layout]:
    """Return arena dimensions and layout of a value; rows of a sample are a dimension."""
    if image is not None and len(shape) == 2:
        return shape, Layout(shape, (batch, *image), (0, 2, 3, 1))
    if image is not None:
        channels, height, width = image
        layout = Layout(shape, (batch, *image), (0, 2, 3, 1))
        return (batch, height, width, channels), layout
    if shape[0] != batch:
        shape = (batch, shape[0] // batch, *shape[1:])
    return shape, Layout.plain(shape)


def image_layout(shape: tuple[int, ...], image: Image) -> tuple[tuple[int, ...], Layout]:
    """Return arena dimensions and layout of a value as images, features (N, C) as single pixels."""
    channels, height, width = image or (shape[1], 1, 1)
    dims = (shape[0], height, width, channels)
    return dims, Layout(shape, (shape[0], channels, height, width), (0, 2, 3, 1))


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


def _beside_image(shape: tuple[int, ...], rank: int) -> tuple[tuple[int, ...], Layout]:
    """Return how a parameter lies whose trailing dimensions are those of channels-last values."""
    sizes = (*(1,) * (rank - len(shape)), *shape)[1:]
    channels, height, width = sizes if rank == 4 else (sizes[0], 1, sizes[1])
    return (height, width, channels), Layout(shape, (channels, height, width), (1, 2, 0))


def _row_layout(shape: tuple[int, ...]) -> tuple[tuple[int, ...], Layout]:
    """Several dimensions that are normalised together lie as one."""
    return (prod(shape),), Layout.plain(shape)


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
        if node.kind == NodeKind.LAYERNORM:
            layouts |= {n: _row_layout(layouts[n][1].shape) for _, n in node.params}
        slot = "other" if node.kind == NodeKind.COMBINE else "weight"
        name = node.param(slot)
        if name is None or node.kind not in _LAID_OUT:
            continue
        shape, order = layouts[name][1].shape, orders[node.inputs[0]]
        if isinstance(node.attrs, Conv2dAttrs | ConvTranspose2dAttrs):
            layout = _conv_layout(shape, node.attrs.groups)
        elif node.kind == NodeKind.LINEAR:
            layout = _linear_layout(shape, order if len(node.shape) == 2 else None)
        elif order is not None:
            layout = _beside_image(shape, len(node.shape))
        else:
            layout = shape, Layout.plain(shape)
        if name in chosen and layouts[name] != layout:
            raise ShapeError(
                f"layers '{chosen[name]}' and '{node.name}' share '{name}' but differ in groups or "
                "in the order of what they work on; a shared convolution needs the same groups "
                "everywhere, a parameter beside images stands beside images only"
            )
        layouts[name] = layout
        chosen.setdefault(name, node.name)
    return layouts
