"""Which elements of the network's input a value is: what only moves them is followed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

from armtrain.ir.graph import Node, NodeKind, PermuteAttrs, SliceAttrs

__all__ = ["MOVING", "input_elements"]

MOVING = (NodeKind.SLICE, NodeKind.RESHAPE, NodeKind.FLATTEN, NodeKind.PERMUTE)
"""Kinds whose value has elements of their input and nothing else."""


def input_elements(nodes: Sequence[Node], node: int, batch: int) -> list[int] | None:
    """Return the numbers, in one sample of the input, of the elements of a node's value.

    None for a value that is computed. The time is that of a copy for each node that moves them.
    """
    moves: list[Node] = []
    while nodes[node].kind in MOVING:
        moves.append(nodes[node])
        node = nodes[node].inputs[0]
    if nodes[node].kind != NodeKind.INPUT:
        return None
    shape = _of_sample(nodes[node], batch)
    numbers = list(range(prod(shape)))
    for move in reversed(moves):
        numbers = _moved(numbers, shape, move.attrs)
        shape = _of_sample(move, batch)
    return numbers


def _of_sample(node: Node, batch: int) -> tuple[int, ...]:
    """Return the shape of one sample's rows of a value."""
    rows, *rest = node.shape
    return rows // batch, *rest


def _moved(numbers: list[int], shape: tuple[int, ...], attrs: Any) -> list[int]:
    """Return numbers of a shape in the order after one move."""
    if isinstance(attrs, SliceAttrs):
        inner, size = prod(shape[attrs.dim + 1 :]), shape[attrs.dim]
        places = range(attrs.start, attrs.start + attrs.length * attrs.step, attrs.step)
        firsts = range(0, len(numbers), size * inner)
        starts = (first + place * inner for first, place in product(firsts, places))
        return [n for start in starts for n in numbers[start : start + inner]]
    if isinstance(attrs, PermuteAttrs):
        steps = [prod(shape[dim + 1 :]) for dim in attrs.dims]
        axes = [range(0, shape[dim] * s, s) for dim, s in zip(attrs.dims, steps, strict=True)]
        return [numbers[sum(at)] for at in product(*axes)]
    return numbers
