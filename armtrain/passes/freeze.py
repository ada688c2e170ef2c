"""Freezing: which parameters train, and where the backward pass stops."""

from __future__ import annotations

from dataclasses import replace

from armtrain.errors import ShapeError
from armtrain.ir.graph import BatchNorm2dAttrs, Graph, Node
from armtrain.passes.select import select

__all__ = ["freeze", "needs_gradient"]


def freeze(graph: Graph, train_only: tuple[str, ...] | None) -> Graph:
    """Return `graph` with everything but the chosen parameters frozen.

    A batch norm of which no parameter or buffer is chosen keeps its running statistics, as after
    `requires_grad_(False)` and `eval()`: frozen means that not a byte of the layer changes.

    Parameters
    ----------
    graph : Graph
    train_only : tuple of str or None
        Patterns of names to train; None leaves the graph as it is.

    Raises
    ------
    ArgumentError
        A pattern fits nothing.
    """
    if train_only is None:
        return graph
    chosen = select("train_only", [p.name for p in graph.params], train_only)
    params = tuple(replace(p, trained=p.trained and p.name in chosen) for p in graph.params)
    nodes = tuple(_frozen_norm(node, chosen) for node in graph.nodes)
    return replace(graph, nodes=nodes, params=params)


def _frozen_norm(node: Node, chosen: frozenset[str]) -> Node:
    """Return a batch norm with fixed statistics unless something of it is chosen."""
    attrs = node.attrs
    if not isinstance(attrs, BatchNorm2dAttrs) or node.param("running_mean") is None:
        return node
    if any(name in chosen for _, name in node.params):
        return node
    return replace(node, attrs=replace(attrs, training=False))


def needs_gradient(graph: Graph) -> tuple[bool, ...]:
    """Return per node whether the gradient of its value is needed.

    It is needed if a trained parameter took part in the value; below the first trained layer
    nothing is differentiated and nothing is kept.

    Raises
    ------
    ShapeError
        Nothing that reaches the output is trained.
    """
    trained = {p.name for p in graph.params if p.trained}
    needs: list[bool] = []
    for node in graph.nodes:
        own = any(name in trained for _, name in node.params)
        needs.append(own or any(needs[i] for i in node.inputs))
    if not needs[graph.output]:
        count = sum(not p.buffer for p in graph.params)
        raise ShapeError(
            f"nothing to train: none of the network's {count} parameters is trained and reaches "
            "the output; call requires_grad_() on a layer, or give train_only='NAME.*' of a layer "
            "that is used"
        )
    return tuple(needs)
