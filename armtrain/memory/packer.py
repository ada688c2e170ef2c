"""The packer: reduce the problem, try greedy orders, then search.

Buffers that are live always lie at the bottom, which loses nothing. Times at which no other
buffer is live cut the rest into parts that are packed on their own. A part is finished as soon
as it fits under the lower bound of the whole, or under the capacity that was asked for.

Searches are complete, and short first: one rank after another, then many ranks with noise, then
long ones that halve the gap between what is proved impossible and what is found. Their effort is
counted in placements, so that the result is the same on every host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd

from armtrain.memory.bounds import lower_bound
from armtrain.memory.greedy import ORDERS, Placer
from armtrain.memory.problem import Buffer, Problem, Solution
from armtrain.memory.ranks import RANKS, Ranks
from armtrain.memory.search import Outcome, exact
from armtrain.memory.sections import Sections

__all__ = ["NODE_LIMIT", "pack"]

NODE_LIMIT = 60_000
"""Default effort in buffer placements: a few seconds of pure Python at most."""

_TRIES = (2_000, 16_000, 128_000)  # nodes for each fixed rank, round by round
_TRY_SHARE = 8  # a try may not take more than this part of the nodes that are left
_SHAKEN_NODES = 5_000  # for each rank with noise
_SHAKEN_SHARE = 2  # the part of the nodes that are left; the rest is for closing the gap


@dataclass(frozen=True)
class _Packing:
    """A packed part: offsets, height, what is proved, how it was found, effort."""

    offsets: list[int]
    height: int
    proved: int
    method: str
    nodes: int


def pack(
    problem: Problem, *, capacity: int | None = None, node_limit: int = NODE_LIMIT
) -> Solution:
    """Place all buffers so that live ones never overlap, as low as the effort allows.

    Parameters
    ----------
    problem : Problem
    capacity : int, optional
        Height that is low enough; the least one by default.
    node_limit : int
        Buffer placements that the searches may try; the result depends on nothing else.

    Returns
    -------
    Solution
        Its height is at most the capacity, or equal to the lower bound, unless the searches
        failed to reach that.
    """
    buffers = problem.buffers
    if not buffers:
        return Solution((), 0, 0, 0, "empty", 0)
    bound = lower_bound(buffers)
    target = bound if capacity is None else max(bound, capacity)
    offsets = [0] * len(buffers)
    base, rest = _place_permanent(buffers, offsets)
    results = []
    for part in _parts(buffers, rest):
        packed = _pack_part([buffers[i] for i in part], target - base, node_limit)
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
    part = _Part(small, max(lower_bound(small), capacity // unit), node_limit)
    for stage in (_Part.try_fixed_ranks, _Part.shake_ranks, _Part.close_gap):
        if not part.is_done():
            stage(part)
    best = part.best
    offsets = [offset * unit for offset in best.offsets]
    return replace(best, offsets=offsets, height=best.height * unit, proved=best.proved * unit)


def _portfolio(buffers: Sequence[Buffer], target: int) -> _Packing:
    """Return the best packing of the greedy orders."""
    placer = Placer(buffers)
    best: _Packing | None = None
    for name, key in ORDERS.items():
        ranks = [key(b) for b in buffers]
        order = sorted(range(len(buffers)), key=ranks.__getitem__)
        for best_fit in (False, True):
            offsets = placer.place(order, best_fit)
            height = placer.height(offsets)
            if best is None or height < best.height:
                kind = "best-fit" if best_fit else "first-fit"
                best = _Packing(offsets, height, 0, f"{kind}:{name}", 0)
            if best.height <= target:
                return replace(best, nodes=placer.nodes)
    assert best is not None
    return replace(best, nodes=placer.nodes)


class _Part:
    """One part that is being packed: what is known, and the stages that find out more."""

    def __init__(self, buffers: Sequence[Buffer], target: int, node_limit: int) -> None:
        self.buffers, self.target, self.node_limit = buffers, target, node_limit
        self.best = replace(_portfolio(buffers, target), proved=lower_bound(buffers))
        self.sections = Sections.of(buffers)
        self.ranks = Ranks(buffers, self.sections)

    @property
    def left(self) -> int:
        """Nodes that may still be spent."""
        return max(0, self.node_limit - self.best.nodes)

    def is_done(self) -> bool:
        """Return whether it is low enough, or nothing can or may be done."""
        return self.best.height <= max(self.target, self.best.proved) or not self.left

    def search(self, capacity: int, nodes: int, rank: Sequence[int], method: str) -> Outcome:
        """Search completely for `capacity` and keep what is found or proved."""
        nodes = min(nodes, self.left)
        outcome, offsets, spent = exact(self.sections, capacity, nodes, rank)
        best = replace(self.best, nodes=self.best.nodes + spent)
        if outcome is Outcome.FOUND:
            height = max(o + b.size for o, b in zip(offsets, self.buffers, strict=True))
            best = replace(best, offsets=offsets, height=height, method=method)
        elif outcome is Outcome.INFEASIBLE:
            best = replace(best, proved=max(best.proved, capacity + 1))
        self.best = best
        return outcome

    def try_fixed_ranks(self) -> None:
        """Give every fixed rank short tries at the target."""
        for nodes in _TRIES:
            for name in RANKS:
                if nodes > self.left // _TRY_SHARE:
                    return
                outcome = self.search(self.target, nodes, self.ranks.fixed(name), f"exact:{name}")
                if outcome is not Outcome.LIMIT:
                    return

    def shake_ranks(self) -> None:
        """Give many ranks with noise a short try each at the target."""
        stop = self.left // _SHAKEN_SHARE
        seed = 0
        while self.left > stop:
            rank = self.ranks.shaken(seed)
            before = self.left
            outcome = self.search(self.target, _SHAKEN_NODES, rank, f"exact:shaken:{seed}")
            if outcome is not Outcome.LIMIT or self.left == before:
                return
            seed += 1

    def close_gap(self) -> None:
        """Halve the gap between the proved bound and the best height by long searches."""
        rank = self.ranks.fixed("long")
        low = max(self.best.proved, self.target)
        while low < self.best.height and self.left:
            capacity = (low + self.best.height - 1) // 2
            before = self.left
            nodes = max(_TRIES[0], self.left // 4)
            if self.search(capacity, nodes, rank, "exact:long") is not Outcome.FOUND:
                low = capacity + 1
            if self.left == before:
                return
