"""Pruning: nodes that the output does not depend on, and parameters that nothing uses."""

from __future__ import annotations

from dataclasses import replace

from armtrain.ir.graph import Graph

__all__ = ["prune", "unused_text"]


def prune(graph: Graph) -> tuple[Graph, tuple[str, ...]]:
    """Return `graph` without dead nodes, and the names of trained parameters that are unused.

    Unused parameters stay in the network (they are saved) but are frozen, as in torch, where
    they get no gradient. The input stays, used or not.
    """
    live = {0, graph.output}
    for node in reversed(graph.nodes):
        if node.id in live:
            live.update(node.inputs)
    kept = [node for node in graph.nodes if node.id in live]
    ids = {node.id: index for index, node in enumerate(kept)}
    nodes = tuple(
        replace(node, id=ids[node.id], inputs=tuple(ids[i] for i in node.inputs)) for node in kept
    )
    used = {name for node in nodes for _, name in node.params}
    unused = tuple(p.name for p in graph.params if p.trained and p.name not in used)
    params = tuple(replace(p, trained=p.trained and p.name in used) for p in graph.params)
    return replace(graph, nodes=nodes, params=params, output=ids[graph.output]), unused


def unused_text(unused: tuple[str, ...]) -> str:
    """Return the warning about unused parameters."""
    return (
        f"{len(unused)} parameters do not reach the output and will not be trained: "
        f"{', '.join(unused)}; use them in forward(), or remove them"
    )
