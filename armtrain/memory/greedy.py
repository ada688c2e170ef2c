"""First-fit and best-fit packing of buffers in a given order, and the portfolio of orders.

One placement costs what is already placed. Ties are broken by position, so results are the same
everywhere.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import cached_property

from armtrain.memory.problem import Buffer

try:
    from armtrain import _packer
except ImportError:
    _packer = None  # type: ignore[assignment]

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
    """Places the buffers of one problem in any order, at the lowest or the tightest gap.

    kernels/pack/greedy.c does it when it is built, otherwise its plain twin here, with the same
    result.
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = buffers
        self.nodes = 0

    def place(self, order: Sequence[int], best_fit: bool = False) -> list[int]:
        """Return the offset of every buffer, placed in `order`, a permutation of all."""
        self.nodes += len(order)
        if _packer is None or not order:
            return self.place_plain(order, best_fit)
        offsets = array("q", bytes(8 * len(order)))
        _packer.place(*self._columns, array("I", order), best_fit, offsets)
        return list(offsets)

    def place_plain(self, order: Sequence[int], best_fit: bool = False) -> list[int]:
        """Do what `place` does, in plain Python."""
        sizes, neighbours = [b.size for b in self.buffers], self._neighbours
        offsets = [-1] * len(sizes)
        gap = _tightest_gap if best_fit else _lowest_gap
        for index in order:
            taken = [(offsets[j], sizes[j]) for j in neighbours[index] if offsets[j] >= 0]
            taken.sort()
            offsets[index] = gap(taken, sizes[index])
        return offsets

    def height(self, offsets: Sequence[int]) -> int:
        """Return the largest offset + size."""
        return max((o + b.size for o, b in zip(offsets, self.buffers, strict=True)), default=0)

    @cached_property
    def _columns(self) -> tuple[array[int], array[int], array[int]]:
        lower = array("q", (b.lower for b in self.buffers))
        upper = array("q", (b.upper for b in self.buffers))
        return lower, upper, array("q", (b.size for b in self.buffers))

    @cached_property
    def _neighbours(self) -> list[list[int]]:
        return _neighbours(self.buffers)


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
