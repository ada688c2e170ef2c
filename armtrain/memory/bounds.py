"""Lower bounds of a packing problem by one sweep over time."""

from __future__ import annotations

from collections.abc import Sequence

from armtrain.memory.problem import Buffer

__all__ = ["live_profile", "lower_bound", "peak_time"]


def live_profile(buffers: Sequence[Buffer]) -> list[tuple[int, int]]:
    """Return (time, live bytes from that time on), ascending, one entry per change."""
    change: dict[int, int] = {}
    for b in buffers:
        change[b.lower] = change.get(b.lower, 0) + b.size
        change[b.upper] = change.get(b.upper, 0) - b.size
    profile, live = [], 0
    for time in sorted(change):
        live += change[time]
        profile.append((time, live))
    return profile


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """Return the most bytes live at one time; no packing can be lower."""
    return max((live for _, live in live_profile(buffers)), default=0)


def peak_time(buffers: Sequence[Buffer]) -> int:
    """Return the first time at which `lower_bound` bytes are live."""
    bound = lower_bound(buffers)
    return next((time for time, live in live_profile(buffers) if live == bound), 0)
