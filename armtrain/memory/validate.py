"""Independent checker of a packing: one sweep over time, nothing shared with the packer."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from armtrain.memory.problem import Problem

__all__ = ["violations"]


def violations(
    problem: Problem, offsets: Sequence[int], capacity: int | None = None, alignment: int = 1
) -> list[str]:
    """Return what is wrong with `offsets`, one sentence each; empty when nothing is.

    Parameters
    ----------
    problem : Problem
    offsets : sequence of int
        One per buffer.
    capacity : int, optional
        Highest allowed end of a buffer.
    alignment : int
        Divisor that every offset must have.

    Returns
    -------
    list of str
    """
    if len(offsets) != len(problem.buffers):
        return [f"{len(offsets)} offsets for {len(problem.buffers)} buffers"]
    found = []
    for index, (buffer, offset) in enumerate(zip(problem.buffers, offsets, strict=True)):
        name = problem.name(index)
        if offset < 0:
            found.append(f"buffer {name} has the negative offset {offset}")
        if offset % alignment:
            found.append(f"buffer {name} at {offset} is not aligned to {alignment}")
        if capacity is not None and offset + buffer.size > capacity:
            found.append(
                f"buffer {name} ends at {offset + buffer.size}, above the capacity {capacity}"
            )
    return found + _overlaps(problem, offsets)


def _overlaps(problem: Problem, offsets: Sequence[int]) -> list[str]:
    """Return a sentence for every pair found live at one time on common addresses."""
    events: list[tuple[int, int, int]] = []
    for index, buffer in enumerate(problem.buffers):
        events.append((buffer.lower, 1, index))
        events.append((buffer.upper, 0, index))
    found = []
    live: list[tuple[int, int]] = []  # (offset, buffer), ascending; disjoint unless reported
    for _, starts, index in sorted(events):
        entry = (offsets[index], index)
        if not starts:
            live.remove(entry)
            continue
        end = offsets[index] + problem.buffers[index].size
        place = bisect_left(live, entry)
        for offset, other in live[:place][::-1] + live[place:]:
            other_end = offset + problem.buffers[other].size
            if offset < end and offsets[index] < other_end:
                found.append(
                    f"buffers {problem.name(other)} [{offset},{other_end}) and "
                    f"{problem.name(index)} [{offsets[index]},{end}) are live together and overlap"
                )
        insort(live, entry)
    return found
