"""Graph verifier: invariants that hold after tracing and after every pass on graphs."""

from __future__ import annotations

from armtrain.errors import ShapeError
from armtrain.ir.graph import Graph, Node, NodeKind, Param
from armtrain.ir.shapes import infer_shape

__all__ = ["verify_graph"]

_SLOTS: dict[NodeKind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    NodeKind.LINEAR: (("weight",), ("bias",)),
    NodeKind.CONV2D: (("weight",), ("bias",)),
    NodeKind.COMBINE: ((), ("other",)),
    NodeKind.CONV_TRANSPOSE2D: (("weight",), ("bias",)),
    NodeKind.BATCHNORM2D: ((), ("weight", "bias", "running_mean", "running_var")),
    NodeKind.LAYERNORM: ((), ("weight", "bias")),
    NodeKind.EMBEDDING: (("weight",), ()),
}
"""Kind -> (slots it must have, slots it may have)."""


def _require(condition: bool, text: str) -> None:
    """Refuse a malformed graph; only a defect in a pass can cause it."""
    if not condition:
        raise ShapeError(f"malformed graph: {text}")


def _check_node(node: Node, graph: Graph, params: dict[str, Param]) -> None:
    """Check one node against the nodes before it."""
    _require(graph.nodes[node.id] is node, f"node {node.id} is not at its index")
    _require(all(0 <= i < node.id for i in node.inputs), f"'{node.name}' reads a later node")
    needed, optional = _SLOTS.get(node.kind, ((), ()))
    slots = [slot for slot, _ in node.params]
    _require(
        set(needed) <= set(slots) <= set(needed + optional) and len(slots) == len(set(slots)),
        f"'{node.name}' ({node.kind.value}) has the parameters {slots}",
    )
    _require(all(name in params for _, name in node.params), f"'{node.name}': unknown parameter")
    if node.kind == NodeKind.INPUT:
        _require(node.id == 0 and not node.inputs, "the input is not the first node")
        return
    shape = infer_shape(
        node.name,
        node.attrs,
        tuple(graph.nodes[i].shape for i in node.inputs),
        {slot: params[name].shape for slot, name in node.params},
    )
    _require(shape == node.shape, f"'{node.name}' has shape {node.shape}, inferred {shape}")


def verify_graph(graph: Graph) -> None:
    """Check order, names, parameters and shapes of `graph`.

    Raises
    ------
    ShapeError
        Naming the node that breaks an invariant.
    """
    params = {p.name: p for p in graph.params}
    _require(len(params) == len(graph.params), "two parameters have one name")
    _require(not any(p.buffer and p.trained for p in graph.params), "a buffer is trained")
    _require(bool(graph.nodes), "no nodes")
    names = {n.name for n in graph.nodes}
    _require(len(names) == len(graph.nodes), "two nodes have one name")
    _require(0 <= graph.output < len(graph.nodes), f"output {graph.output} does not exist")
    for node in graph.nodes:
        _check_node(node, graph, params)
        whole = node.shape[0] % graph.batch_size == 0
        _require(whole, f"'{node.name}': {node.shape[0]} rows of {graph.batch_size} samples")
