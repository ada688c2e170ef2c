"""The packer: reduce the problem, try greedy orders, repair, then search completely.

Buffers that are live always lie at the bottom, which loses nothing. Times at which no other
buffer is live cut the rest into parts that are packed on their own. A part is finished as soon
as it fits under the lower bound of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd

from armtrain.memory.bounds import lower_bound
from armtrain.memory.greedy import ORDERS, Placer
from armtrain.memory.problem import Buffer, Problem, Solution
from armtrain.memory.search import RANKS, Outcome, exact, repair

__all__ = ["NODE_LIMIT", "pack"]

NODE_LIMIT = 60_000
"""Default effort in buffer placements: a few seconds of pure Python at most."""

_TRY_NODES = 2_000  # for each rank of the complete search at the target
_REPAIR_SHARE = 0.5  # of the nodes that are left, the rest is for closing the gap
_EXACT_BUFFERS = 400  # the complete search recurses once per buffer


@dataclass(frozen=True)
class _Packing:
    """A packed part: offsets, height, what is proved, how it was found, effort."""

    offsets: list[int]
    height: int
    proved: int
    method: str
    nodes: int


def pack(problem: Problem, *, node_limit: int = NODE_LIMIT) -> Solution:
    """Place all buffers so that live ones never overlap, as low as the effort allows.

    Parameters
    ----------
    problem : Problem
    node_limit : int
        Buffer placements that the searches may try; the result depends on nothing else.

    Returns
    -------
    Solution
        Its height equals its lower bound unless the searches failed to reach that.
    """
    buffers = problem.buffers
    if not buffers:
        return Solution((), 0, 0, 0, "empty", 0)
    bound = lower_bound(buffers)
    offsets = [0] * len(buffers)
    base, rest = _place_permanent(buffers, offsets)
    results = []
    for part in _parts(buffers, rest):
        packed = _pack_part([buffers[i] for i in part], bound - base, node_limit)
        node_limit = max(0, node_limit - packed.nodes)
        for index, offset in zip(part, packed.offsets, strict=True):
            offsets[index] = base + offset
        results.append(packed)
    height = max((o + b.size for o, b in zip(offsets, buffers, strict=True)), default=0)
    proved = max([bound] + [base + p.proved for p in results])
    worst = max(results, key=lambda p: p.height, default=None)
    method = worst.method if worst else "permanent"
    nodes = sum(p.nodes for p in results)
    return Solution(tuple(offsets), height, bound, proved, method, nodes)


def _place_permanent(buffers: Sequence[Buffer], offsets: list[int]) -> tuple[int, list[int]]:
    """Stack the buffers that span all times at the bottom; return its height and the others."""
    start = min(b.lower for b in buffers)
    stop = max(b.upper for b in buffers)
    base, rest = 0, []
    for index, b in enumerate(buffers):
        if b.lower == start and b.upper == stop:
            offsets[index] = base
            base += b.size
        else:
            rest.append(index)
    return base, rest


def _parts(buffers: Sequence[Buffer], indices: Sequence[int]) -> list[list[int]]:
    """Return the groups of `indices` that share no time, each ascending by index."""
    groups: list[list[int]] = []
    reach = -1
    for i in sorted(indices, key=lambda i: (buffers[i].lower, i)):
        if buffers[i].lower >= reach:
            groups.append([])
        groups[-1].append(i)
        reach = max(reach, buffers[i].upper)
    return [sorted(group) for group in groups]


def _pack_part(buffers: list[Buffer], capacity: int, node_limit: int) -> _Packing:
    """Pack one part to `capacity` if possible, in units of the sizes' common divisor."""
    unit = reduce(gcd, (b.size for b in buffers))
    small = [replace(b, size=b.size // unit) for b in buffers]
    bound = lower_bound(small)
    target = max(bound, capacity // unit)
    placer = Placer(small)
    best, order = _portfolio(placer, small, target)
    best = replace(best, proved=bound, nodes=placer.nodes)
    for stage in (_tried, _repaired, _bisected):
        if best.height > max(target, best.proved) and best.nodes < node_limit:
            best = stage(placer, small, best, order, target, node_limit)
    offsets = [offset * unit for offset in best.offsets]
    return _Packing(offsets, best.height * unit, best.proved * unit, best.method, best.nodes)


def _portfolio(
    placer: Placer, buffers: Sequence[Buffer], target: int
) -> tuple[_Packing, list[int]]:
    """Return the best packing of the greedy orders and the order that made it."""
    best: _Packing | None = None
    best_order: list[int] = []
    for name, key in ORDERS.items():
        ranks = [key(b) for b in buffers]
        order = sorted(range(len(buffers)), key=ranks.__getitem__)
        for best_fit in (False, True):
            offsets = placer.place(order, best_fit)
            height = placer.height(offsets)
            if best is None or height < best.height:
                kind = "best-fit" if best_fit else "first-fit"
                best, best_order = _Packing(offsets, height, 0, f"{kind}:{name}", 0), order
            if best.height <= target:
                return best, best_order
    assert best is not None
    return best, best_order


def _searched(
    buffers: Sequence[Buffer], best: _Packing, capacity: int, node_limit: int, rank: str
) -> tuple[Outcome, _Packing]:
    """Search completely for `capacity`; return the outcome and what is known then."""
    if len(buffers) > _EXACT_BUFFERS:
        return Outcome.LIMIT, best
    outcome, offsets, nodes = exact(buffers, capacity, node_limit, rank)
    best = replace(best, nodes=best.nodes + nodes)
    if outcome is Outcome.FOUND:
        height = max(o + b.size for o, b in zip(offsets, buffers, strict=True))
        best = replace(best, offsets=offsets, height=height, method=f"exact:{rank}")
    elif outcome is Outcome.INFEASIBLE:
        best = replace(best, proved=max(best.proved, capacity + 1))
    return outcome, best


def _tried(
    placer: Placer, buffers: Sequence[Buffer], best: _Packing, order: list[int], target: int,
    node_limit: int,
) -> _Packing:  # fmt: skip
    """Give every rank of the complete search a short try at the target."""
    for rank in RANKS:
        quota = min(_TRY_NODES, node_limit - best.nodes)
        outcome, best = _searched(buffers, best, target, quota, rank)
        if outcome is not Outcome.LIMIT:
            break
    return best


def _repaired(
    placer: Placer, buffers: Sequence[Buffer], best: _Packing, order: list[int], target: int,
    node_limit: int,
) -> _Packing:  # fmt: skip
    """Reorder the best greedy packing for a share of the nodes."""
    quota = int((node_limit - best.nodes) * _REPAIR_SHARE)
    before = placer.nodes
    offsets, height = repair(placer, order, target, before + quota)
    best = replace(best, nodes=best.nodes + placer.nodes - before)
    if height < best.height:
        return replace(best, offsets=offsets, height=height, method="repair")
    return best


def _bisected(
    placer: Placer, buffers: Sequence[Buffer], best: _Packing, order: list[int], target: int,
    node_limit: int,
) -> _Packing:  # fmt: skip
    """Halve the gap between the proved bound and the best height by complete searches."""
    low = max(best.proved, target)
    while low < best.height and best.nodes < node_limit:
        capacity = (low + best.height - 1) // 2
        quota = max(_TRY_NODES, (node_limit - best.nodes) // 4)
        outcome, best = _searched(buffers, best, capacity, quota, "long")
        if outcome is not Outcome.FOUND:
            low = capacity + 1
        if len(buffers) > _EXACT_BUFFERS:
            break
    return best
