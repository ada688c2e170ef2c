"""Bounded searches for a packing not higher than a capacity; effort is counted in placements.

`repair` reorders a greedy packing: buffers that stick out above the capacity are placed earlier
next time (squeaky-wheel optimisation, Joslin and Clements, JAIR 10, 1999). `exact` is a complete
depth-first search over packings in which offsets never decrease in the order of placement, every
buffer lying on another or on the floor; every packing can be pushed down into that form. It
either finds a packing, proves that there is none, or runs out of nodes.

Both work on plain integers so that compiled twins can take their place.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from enum import Enum

from armtrain.memory.greedy import Placer
from armtrain.memory.problem import Buffer

__all__ = ["RANKS", "Outcome", "exact", "repair"]

_PERTURB_AFTER = 12  # rounds without progress before the order is shaken
_MOVE_LIMIT = 40  # buffers moved per round at most


class Outcome(Enum):
    """What a search established."""

    FOUND = "found"
    INFEASIBLE = "infeasible"
    LIMIT = "limit"


def repair(
    placer: Placer, order: Sequence[int], capacity: int, node_limit: int, seed: int = 0
) -> tuple[list[int], int]:
    """Improve a greedy order until its packing fits `capacity` or nodes run out.

    Parameters
    ----------
    placer : Placer
    order : sequence of int
        Start order.
    capacity : int
        Wanted height.
    node_limit : int
        Value of `placer.nodes` at which to stop.
    seed : int
        Key of the perturbations.

    Returns
    -------
    tuple of (list of int, int)
        Best offsets and their height.
    """
    rng = random.Random(seed)
    current = list(order)
    best: list[int] = []
    best_height, stale = -1, 0
    sizes = placer.sizes
    while True:
        offsets = placer.place(current)
        height = placer.height(offsets)
        if best_height < 0 or height < best_height:
            best, best_height, stale = offsets, height, 0
        else:
            stale += 1
        if best_height <= capacity or placer.nodes >= node_limit:
            return best, best_height
        too_high = {i for i in current if offsets[i] + sizes[i] > capacity}
        current = _promote(current, too_high, rng)
        if stale >= _PERTURB_AFTER:
            stale = 0
            for _ in range(max(2, len(current) // 16)):
                a = int(rng.random() * len(current))
                current.insert(int(rng.random() * len(current)), current.pop(a))


def _promote(order: list[int], too_high: set[int], rng: random.Random) -> list[int]:
    """Move the buffers of `too_high` towards the front, the rest keeps its order."""
    result = list(order)
    moved = 0
    for place, index in enumerate(order):
        if index in too_high and moved < _MOVE_LIMIT:
            result.remove(index)
            result.insert(int(place * rng.random()), index)
            moved += 1
    return result


_Rank = Callable[[Buffer, int], tuple[int, ...]]

RANKS: dict[str, _Rank] = {
    "long": lambda b, peak: (b.lower - b.upper, -b.size),
    "peak": lambda b, peak: (-peak, b.lower - b.upper, -b.size),
    "peak-area": lambda b, peak: (-peak, -b.size * (b.upper - b.lower)),
    "size": lambda b, peak: (-b.size, b.lower - b.upper),
}
"""Which of several buffers that may come next at one address is tried first: a key from the buffer
and the most bytes live during its lifetime."""


def exact(
    buffers: Sequence[Buffer], capacity: int, node_limit: int, rank: str = "long"
) -> tuple[Outcome, list[int], int]:
    """Search completely for a packing of height <= `capacity`.

    Parameters
    ----------
    buffers : sequence of Buffer
    capacity : int
    node_limit : int
        Placements that may be tried.
    rank : str
        Key of `RANKS`; it decides what is found soon, never what is true.

    Returns
    -------
    tuple of (Outcome, list of int, int)
        Outcome, offsets (when found) and nodes spent.
    """
    search = _Exact(buffers, capacity, node_limit, RANKS[rank])
    try:
        found = search.solve(sorted(range(len(buffers)), key=search.start.__getitem__), 0)
    except _LimitReachedError:
        return Outcome.LIMIT, [], search.nodes
    outcome = Outcome.FOUND if found else Outcome.INFEASIBLE
    return outcome, search.offsets if found else [], search.nodes


class _LimitReachedError(Exception):
    """The exact search has used up its nodes."""


class _Exact:
    """State of one exact search: per elementary time section its floor and what must follow."""

    def __init__(
        self, buffers: Sequence[Buffer], capacity: int, node_limit: int, rank: _Rank
    ) -> None:
        times = sorted({b.lower for b in buffers} | {b.upper for b in buffers})
        section = {time: i for i, time in enumerate(times)}
        self.start = [section[b.lower] for b in buffers]
        self.stop = [section[b.upper] for b in buffers]
        self.size = [b.size for b in buffers]
        self.floor = [0] * len(times)
        self.remaining = [0] * len(times)
        self.offsets = [0] * len(buffers)
        for i, size in enumerate(self.size):
            for s in range(self.start[i], self.stop[i]):
                self.remaining[s] += size
        peaks = [max(self.remaining[a:b]) for a, b in zip(self.start, self.stop, strict=True)]
        self.rank = [rank(b, peak) for b, peak in zip(buffers, peaks, strict=True)]
        self.capacity = capacity
        self.node_limit = node_limit
        self.nodes = 0

    def solve(self, items: list[int], low: int) -> bool:
        """Place `items` (by start) at offsets >= `low`; on failure the state is as before."""
        if not items:
            return True
        groups = self._split(items)
        if len(groups) == 1:
            return self._branch(items, low)
        floor, remaining = list(self.floor), list(self.remaining)
        for group in sorted(groups, key=len):
            if not self._branch(group, low):
                self.floor, self.remaining = floor, remaining
                return False
        return True

    def _split(self, items: list[int]) -> list[list[int]]:
        """Return the groups of `items` that share no time with each other."""
        groups: list[list[int]] = []
        reach = -1
        for i in items:
            if self.start[i] >= reach:
                groups.append([])
            groups[-1].append(i)
            reach = max(reach, self.stop[i])
        return groups

    def _branch(self, items: list[int], low: int) -> bool:
        """Try every buffer that may come next in a canonical packing of one group."""
        for offset, i in self._candidates(items, low):
            if self.nodes >= self.node_limit:
                raise _LimitReachedError
            self.nodes += 1
            if not self._fits(items, i, offset):
                continue
            a, b, size = self.start[i], self.stop[i], self.size[i]
            below = self.floor[a:b]
            self.floor[a:b] = [offset + size] * (b - a)
            for s in range(a, b):
                self.remaining[s] -= size
            self.offsets[i] = offset
            rest = [j for j in items if j != i]
            if self.solve(rest, offset):
                return True
            self.floor[a:b] = below
            for s in range(a, b):
                self.remaining[s] += size
        return False

    def _candidates(self, items: list[int], low: int) -> list[tuple[int, int]]:
        """Return (offset, buffer) of the next placements worth trying, most promising first.

        Of all packings of least height the one with the smallest sum of offsets is looked for.
        In it, nothing is placed next above a place where another buffer fits entirely, and
        nothing floats. Equal buffers (same times and size) are tried once.
        """
        floor, start, stop, size = self.floor, self.start, self.stop, self.size
        options = [(max(floor[start[i] : stop[i]]), i) for i in items]
        ceiling = min(offset + size[i] for offset, i in options)
        seen: set[tuple[int, int, int]] = set()
        result = []
        for offset, i in options:
            key = (start[i], stop[i], size[i])
            if low <= offset < ceiling and key not in seen:
                seen.add(key)
                result.append((offset, self.rank[i], i))
        result.sort()
        return [(offset, i) for offset, _, i in result]

    def _fits(self, items: list[int], chosen: int, offset: int) -> bool:
        """Return whether every section can still hold its rest at or above `offset`."""
        capacity = self.capacity
        if offset + self.size[chosen] > capacity:
            return False
        first = min(self.start[i] for i in items)
        last = max(self.stop[i] for i in items)
        for floor, rest in zip(self.floor[first:last], self.remaining[first:last], strict=True):
            if rest and (floor if floor > offset else offset) + rest > capacity:
                return False
        return True
