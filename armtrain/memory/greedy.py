"""First-fit and best-fit packing of buffers in a given order, and the portfolio of orders.

One placement costs the live neighbours already placed; a whole order of a few hundred buffers
takes milliseconds. Ties are broken by position, so results are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from armtrain.memory.problem import Buffer

__all__ = ["ORDERS", "Placer"]

_Key = Callable[[Buffer], tuple[int, ...]]

ORDERS: dict[str, _Key] = {
    "lifetime": lambda b: (b.lower - b.upper, -b.size),
    "size": lambda b: (-b.size, b.lower - b.upper),
    "area": lambda b: (-b.size * (b.upper - b.lower), -b.size),
    "start": lambda b: (b.lower, b.lower - b.upper, -b.size),
    "end": lambda b: (-b.upper, b.lower - b.upper, -b.size),
}
"""Sort keys of the portfolio: long-lived first makes stacks of nested lifetimes."""


class Placer:
    """Places the buffers of one problem in any order, at the lowest or the tightest gap."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.sizes = [b.size for b in buffers]
        self.neighbours = _neighbours(buffers)
        self.nodes = 0

    def place(self, order: Iterable[int], best_fit: bool = False) -> list[int]:
        """Return the offset of every buffer in `order`; others stay at -1."""
        sizes, neighbours = self.sizes, self.neighbours
        offsets = [-1] * len(sizes)
        gap = _tightest_gap if best_fit else _lowest_gap
        for index in order:
            taken = [(offsets[j], sizes[j]) for j in neighbours[index] if offsets[j] >= 0]
            taken.sort()
            offsets[index] = gap(taken, sizes[index])
            self.nodes += 1
        return offsets

    def height(self, offsets: Sequence[int]) -> int:
        """Return the largest offset + size."""
        return max((o + s for o, s in zip(offsets, self.sizes, strict=True)), default=0)


def _neighbours(buffers: Sequence[Buffer]) -> list[list[int]]:
    """Return per buffer those that are live at a common time, by a sweep over starts."""
    result: list[list[int]] = [[] for _ in buffers]
    live: list[int] = []
    for index in sorted(range(len(buffers)), key=lambda i: (buffers[i].lower, i)):
        lower = buffers[index].lower
        live = [j for j in live if buffers[j].upper > lower]
        for j in live:
            result[j].append(index)
        result[index].extend(live)
        live.append(index)
    return result


def _lowest_gap(taken: list[tuple[int, int]], size: int) -> int:
    """Return the lowest address with `size` free units between the sorted `taken`."""
    top = 0
    for offset, length in taken:
        if offset - top >= size:
            return top
        if offset + length > top:
            top = offset + length
    return top


def _tightest_gap(taken: list[tuple[int, int]], size: int) -> int:
    """Return the start of the smallest gap that holds `size`, or the top."""
    top, best, best_slack = 0, -1, 0
    for offset, length in taken:
        slack = offset - top - size
        if slack >= 0 and (best < 0 or slack < best_slack):
            best, best_slack = top, slack
        if offset + length > top:
            top = offset + length
    return top if best < 0 else best
