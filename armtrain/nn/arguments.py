"""Checks of constructor arguments, with messages that say what would work."""

from __future__ import annotations

from armtrain.ir.graph import Pair

__all__ = ["pair", "positive", "refuse_unless"]


def positive(what: str, value: object) -> int:
    """Return `value` if it is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{what} needs an integer >= 1, got {value!r}")
    return value


def pair(what: str, value: object, least: int) -> Pair:
    """Return (height, width) of an integer or a pair of integers of at least `least`."""
    both = value if isinstance(value, tuple | list) else (value, value)
    if len(both) != 2 or not all(
        isinstance(n, int) and not isinstance(n, bool) and n >= least for n in both
    ):
        raise ValueError(
            f"{what} needs an integer >= {least} or a pair (height, width) of them, got {value!r}"
        )
    return both[0], both[1]


def refuse_unless(what: str, value: object, only: object) -> None:
    """Refuse an argument that has one available value only."""
    if value != only or isinstance(value, bool) != isinstance(only, bool):
        raise ValueError(f"{what}={value!r} is not available; use {only!r}")
