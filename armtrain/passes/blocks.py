"""Gradient and update block by block: a weight whose gradient is never there as a whole.

In the order of `order.py` a gradient as large as its weight lives until the update, beside the
derivative. Where the gradient is a product, every row of it can be made by itself: the derivative
comes first, because it reads the weight of the forward pass, then each block of rows is completed
and applied. What is gained is the gradient but for one block; what is paid is that the layer's
input lives beside the derivative of it, so that early convolutions, whose maps are large and whose
weights are small, stay as they are. A layer is changed if its own backward steps then need less.

Not for a weight that several layers share, whose gradient is a sum, nor under clipping by the
global norm, which needs all gradients before the first update.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from armtrain.dtypes import align_up
from armtrain.ir.graph import Conv2dAttrs, ConvTranspose2dAttrs, Graph, Node, NodeKind
from armtrain.ir.program import Step, TensorId
from armtrain.limits import MAX_MERGED_TERMS
from armtrain.passes.emit import Emitter
from armtrain.passes.live import live_bytes

__all__ = ["BlockProduct", "block_rows", "choose_blocks", "layer_peaks"]

BLOCK_BYTES = 256 * 1024
"""Most bytes of a block's gradient: it stays in the second cache of small cores."""
_ROWS = 16
"""Rows of a block are a multiple: whole tiles of all kernels, and every block starts aligned."""
_PRODUCTS = (NodeKind.LINEAR, NodeKind.CONV2D, NodeKind.CONV_TRANSPOSE2D)
_BACKWARD = ("CG", "CD", "AG")


@dataclass(frozen=True)
class BlockProduct:
    """A weight's gradient that is not made yet: the product that an update makes block by block.

    Attributes
    ----------
    param : str
    x, dy : TensorId
        As LINEAR_GRAD_W or CONV2D_GRAD_W takes them.
    attrs : dict
        Attributes of CONV2D_GRAD_W; of a linear layer those of a 1x1 convolution.
    """

    param: str
    x: TensorId
    dy: TensorId
    attrs: Mapping[str, int | float]


def block_rows(dims: Sequence[int]) -> int:
    """Return the rows of a block of a weight's gradient, all of them if one block is enough.

    Parameters
    ----------
    dims : sequence of int
        Of the weight in the arena; all but the last are rows.

    Returns
    -------
    int
        The gradient is cut into as few blocks of at most `BLOCK_BYTES` as possible, all as equal
        as multiples of 16 rows allow, and never below that: a function of the shape alone.
    """
    rows, columns = prod(dims[:-1]), dims[-1]
    most = max(BLOCK_BYTES // (4 * columns) // _ROWS, 1) * _ROWS
    blocks = -(-rows // most)
    return rows if blocks == 1 else align_up(-(-rows // blocks), _ROWS)


def _splits(node: Node, dims: Sequence[int]) -> bool:
    """Whether a gradient is more than a block, and its rows are sums of their own."""
    if block_rows(dims) >= prod(dims[:-1]):
        return False
    if not isinstance(node.attrs, Conv2dAttrs | ConvTranspose2dAttrs):
        return True
    groups, _, kernel_w, inputs, outputs = dims
    merged = groups == 1 and kernel_w > 1 and node.attrs.dilation[1] == 1
    depthwise = groups > 1 and inputs == outputs == 1
    return not depthwise and not (merged and kernel_w * inputs <= MAX_MERGED_TERMS)


def _candidates(graph: Graph, dims: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Return the weights that may be updated by blocks, and the layer of each."""
    uses = Counter(name for node in graph.nodes for _, name in node.params)
    trained = {p.name for p in graph.params if p.trained}
    return {
        name: node.name
        for node in graph.nodes
        if node.kind in _PRODUCTS
        for name in (node.param("weight"),)
        if name in trained and uses[name] == 1 and _splits(node, dims[name])
    }


def layer_peaks(emitter: Emitter, steps: Sequence[Step]) -> dict[str, int]:
    """Return per layer the most bytes that one of its backward steps has live.

    Parameters
    ----------
    emitter : Emitter
    steps : sequence of Step
        The TRAIN phase in execution order.

    Returns
    -------
    dict of str to int
        Bytes beside what persists.
    """
    peaks: dict[str, int] = {}
    for step, live in zip(steps, live_bytes(emitter, steps), strict=False):
        if step.kind in _BACKWARD:
            peaks[step.layer] = max(peaks.get(step.layer, 0), live)
    return peaks


def choose_blocks(
    graph: Graph,
    dims: Mapping[str, Sequence[int]],
    peaks_with: Callable[[frozenset[str]], Mapping[str, int]],
) -> frozenset[str]:
    """Return the weights that are updated by blocks.

    Parameters
    ----------
    graph : Graph
    dims : mapping of str to sequence of int
        Dimensions in the arena by parameter.
    peaks_with : callable
        What `layer_peaks` says of the training steps in which some weights are updated by blocks.
    """
    layers = _candidates(graph, dims)
    if not layers:
        return frozenset()
    whole, blocks = peaks_with(frozenset()), peaks_with(frozenset(layers))
    return frozenset(name for name, layer in layers.items() if blocks[layer] < whole[layer])
