"""A packing problem by sections of time: what both twins of the complete search work on.

Between two consecutive times at which buffers come or go the live buffers are the same. Of these
spans only those count whose live buffers are not all live in a neighbouring span as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from armtrain.memory.problem import Buffer

__all__ = ["Sections"]


@dataclass(frozen=True)
class Sections:
    """Buffers in order of their first section, each live in sections start <= s < stop.

    Attributes
    ----------
    order : tuple of int
        Position in the problem of every buffer here.
    start, stop : tuple of int
    size : tuple of int
    count : int
        Number of sections.
    """

    order: tuple[int, ...]
    start: tuple[int, ...]
    stop: tuple[int, ...]
    size: tuple[int, ...]
    count: int

    @staticmethod
    def of(buffers: Sequence[Buffer]) -> Sections:
        """Return the sections of a problem."""
        events = [(b.lower, 1, i) for i, b in enumerate(buffers)]
        events += [(b.upper, 0, i) for i, b in enumerate(buffers)]
        first = [0] * len(buffers)
        last = [0] * len(buffers)
        count, has_started = 0, False
        for _, starts, index in sorted(events):
            if starts:
                first[index] = count
            elif has_started:
                # The live buffers were never so many: they make a section, which ends here.
                count += 1
            has_started = bool(starts)
            if not starts:
                last[index] = count
        order = sorted(range(len(buffers)), key=lambda i: (first[i], i))
        return Sections(
            tuple(order),
            tuple(first[i] for i in order),
            tuple(last[i] for i in order),
            tuple(buffers[i].size for i in order),
            count,
        )

    def peaks(self) -> list[int]:
        """Return the most bytes live during each buffer's lifetime."""
        change = [0] * (self.count + 1)
        for a, b, size in zip(self.start, self.stop, self.size, strict=True):
            change[a] += size
            change[b] -= size
        live = list(accumulate(change))
        return [max(live[a:b]) for a, b in zip(self.start, self.stop, strict=True)]
