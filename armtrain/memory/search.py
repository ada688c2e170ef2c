"""Complete search for a packing not higher than a capacity; effort is counted in placements.

A depth-first search over packings in which offsets never decrease in the order of placement,
every buffer lying on another or on the floor; every packing can be pushed down into that form. It
either finds a packing, proves that there is none, or runs out of nodes. Canonical placements,
the test of every section and the split into independent groups follow Moffitt, "MiniMalloc: A
Lightweight Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023.

`exact` runs kernels/pack/search.c when it is built, otherwise its plain twin here, which tries the
same placements in the same order.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from enum import Enum
from itertools import groupby

from armtrain.memory.sections import Sections

try:
    from armtrain import _packer
except ImportError:
    _packer = None  # type: ignore[assignment]

__all__ = ["NODES_PLAIN", "Outcome", "exact", "exact_plain", "is_compiled"]

NODES_PLAIN = 100_000
"""What the plain twin tries in a bearable time."""

_PLAIN_MOST = 400  # the twin recurses twice per buffer


class Outcome(Enum):
    """What a search established; the values are those of the compiled search."""

    FOUND = 0
    INFEASIBLE = 1
    LIMIT = 2


def is_compiled() -> bool:
    """Return whether the compiled search is there."""
    return _packer is not None


def exact(
    sections: Sections, capacity: int, node_limit: int, rank: Sequence[int]
) -> tuple[Outcome, list[int], int]:
    """Search completely for a packing of height <= `capacity`.

    Parameters
    ----------
    sections : Sections
        At most 2000 buffers, 400 without the compiled search; more are left undecided.
    capacity : int
    node_limit : int
        Placements that may be tried.
    rank : sequence of int
        Per buffer of `sections`, a permutation: which of several buffers that may come next at
        one address is tried first. It decides what is found soon, never what is true.

    Returns
    -------
    tuple of (Outcome, list of int, int)
        Outcome, offsets in the problem's order (when found) and nodes spent.
    """
    if _packer is None:
        return exact_plain(sections, capacity, node_limit, rank)
    if not 0 < len(sections.size) <= _packer.MAX_BUFFERS:
        return (Outcome.LIMIT if sections.size else Outcome.FOUND), [], 0
    offsets = array("q", bytes(8 * len(sections.size)))
    number, nodes = _packer.search(
        array("I", sections.start),
        array("I", sections.stop),
        array("q", sections.size),
        array("I", rank),
        sections.count,
        capacity,
        node_limit,
        offsets,
    )
    outcome = Outcome(number)
    return outcome, _in_order(sections, offsets) if outcome is Outcome.FOUND else [], nodes


def exact_plain(
    sections: Sections, capacity: int, node_limit: int, rank: Sequence[int]
) -> tuple[Outcome, list[int], int]:
    """Do what `exact` does, in plain Python."""
    if len(sections.size) > _PLAIN_MOST:
        return Outcome.LIMIT, [], 0
    search = _Search(sections, capacity, node_limit, rank)
    try:
        found = search.solve(list(range(len(sections.size))), 0, 0) if search.fits() else False
    except _LimitReachedError:
        return Outcome.LIMIT, [], search.nodes
    outcome = Outcome.FOUND if found else Outcome.INFEASIBLE
    return outcome, _in_order(sections, search.offset) if found else [], search.nodes


def _in_order(sections: Sections, offsets: Sequence[int]) -> list[int]:
    """Return offsets by position in the problem."""
    result = [0] * len(offsets)
    for position, offset in zip(sections.order, offsets, strict=True):
        result[position] = offset
    return result


class _LimitReachedError(Exception):
    """The search has used up its nodes."""


class _Search:
    """State of one search: what is placed, and the least offset of what is not."""

    def __init__(
        self, sections: Sections, capacity: int, node_limit: int, rank: Sequence[int]
    ) -> None:
        self.start, self.stop, self.size = sections.start, sections.stop, sections.size
        self.capacity, self.node_limit, self.rank = capacity, node_limit, rank
        self.offset = [0] * len(self.size)
        self.release = [0] * len(self.size)
        self.placed = [False] * len(self.size)
        self.nodes = 0
        spans = range(sections.count)
        self.live = [[i for i in range(len(self.size)) if self._is_live(i, s)] for s in spans]
        self.rest = [sum(self.size[i] for i in live) for live in self.live]

    def _is_live(self, i: int, section: int) -> bool:
        return self.start[i] <= section < self.stop[i]

    def fits(self, first: int = 0, last: int | None = None, low: int = 0) -> bool:
        """Return whether every section can hold its rest at or above `low`."""
        for live, rest in zip(self.live[first:last], self.rest[first:last], strict=True):
            if rest:
                floor = min(self.release[i] for i in live if not self.placed[i])
                if max(floor, low) + rest > self.capacity:
                    return False
        return True

    def solve(self, items: list[int], low: int, low_rank: int) -> bool:
        """Place `items` at offsets >= `low`; on failure the state is as before."""
        groups = self._split(items)
        if len(groups) == 1:
            return self._branch(items, low, low_rank)
        release = list(self.release)
        for group in sorted(groups, key=len):
            if not self._branch(group, low, low_rank):
                for i in items:
                    self._take_back(i)
                self.release = release
                return False
        return True

    def _split(self, items: list[int]) -> list[list[int]]:
        """Return the groups of `items` that share no section with each other."""
        groups: list[list[int]] = []
        reach = -1
        for i in items:
            if self.start[i] >= reach:
                groups.append([])
            groups[-1].append(i)
            reach = max(reach, self.stop[i])
        return groups

    def _branch(self, items: list[int], low: int, low_rank: int) -> bool:
        """Try every buffer that may come next in one group."""
        first, last = self.start[items[0]], max(self.stop[i] for i in items)
        for i in self._candidates(items, low, low_rank):
            if self.nodes >= self.node_limit:
                raise _LimitReachedError
            self.nodes += 1
            release, offset = list(self.release), self.release[i]
            rest = [j for j in items if j != i]
            if (
                self._place(i)
                and self.fits(first, last, offset)
                and self.solve(rest, offset, self.rank[i])
            ):
                return True
            self._take_back(i)
            self.release = release
        return False

    def _candidates(self, items: list[int], low: int, low_rank: int) -> list[int]:
        """Return the buffers that may come next, by offset and rank.

        Of all packings within the capacity the one with the smallest sum of offsets is looked
        for. In it, nothing lies above a place where another buffer fits entirely, and nothing
        floats. Equal buffers (same sections and size) are tried once.
        """
        ceiling = min(self.release[i] + self.size[i] for i in items)
        least = (low, low_rank)
        firsts = [next(g) for _, g in groupby(sorted(items, key=self._kind), key=self._kind)]
        possible = [i for i in firsts if self._place_of(i) >= least and self.release[i] < ceiling]
        return sorted(possible, key=self._place_of)

    def _kind(self, i: int) -> tuple[int, int, int]:
        return self.start[i], self.stop[i], self.size[i]

    def _place_of(self, i: int) -> tuple[int, int]:
        return self.release[i], self.rank[i]

    def _place(self, i: int) -> bool:
        """Put a buffer at its release; return whether every neighbour can still fit."""
        top = self.release[i] + self.size[i]
        fits = top <= self.capacity
        self.placed[i], self.offset[i] = True, self.release[i]
        for section in range(self.start[i], self.stop[i]):
            self.rest[section] -= self.size[i]
            for j in self.live[section]:
                if not self.placed[j] and self.release[j] < top:
                    self.release[j] = top
                    fits &= top + self.size[j] <= self.capacity
        return fits

    def _take_back(self, i: int) -> None:
        if self.placed[i]:
            self.placed[i] = False
            for section in range(self.start[i], self.stop[i]):
                self.rest[section] += self.size[i]
