"""Checks of constructor arguments, with messages that say what would work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from armtrain.errors import ArgumentError
from armtrain.ir.graph import Pair
from armtrain.limits import MAX_DIM, MAX_FLOAT, MAX_WINDOW, MIN_FLOAT
from armtrain.values import as_integer, integer, real, truth

__all__ = [
    "Rule",
    "as_pair",
    "batch_leads",
    "changed",
    "pair",
    "positive",
    "rate",
    "refuse_unless",
    "refuse_unlike",
    "single",
]

Rule = Callable[[str, Any], object]
"""rule(what, value): the value as a layer keeps it, or an ArgumentError about `what`."""


def positive(what: str, value: object, most: int = MAX_DIM) -> int:
    """Return `value` as an int if it is an integer from 1 to `most`."""
    return integer(what, value, 1, most)


def changed(layer: object, defaults: Mapping[str, object]) -> list[str]:
    """Return NAME=VALUE of a layer's arguments that are not the defaults; it may lack some."""
    given = {name: getattr(layer, name, default) for name, default in defaults.items()}
    return [f"{name}={value!r}" for name, value in given.items() if value != defaults[name]]


def rate(what: str, value: object, high: float = MAX_FLOAT) -> float:
    """Return `value` as a float if it is a number from 0 to `high`."""
    return real(what, value, 0.0, high, MIN_FLOAT)


def pair(what: str, value: object, least: int) -> Pair:
    """Return (height, width) of an integer or a pair of integers of at least `least`."""
    given = tuple(value) if isinstance(value, tuple | list) else (value, value)
    both = [as_integer(n) for n in given]
    if len(both) == 2:
        height, width = both
        if height is not None and width is not None and _in_window(least, height, width):
            return height, width
    raise ArgumentError(
        f"{what} needs an integer from {least} to {MAX_WINDOW} or a pair (height, width) of them, "
        f"got {value!r}"
    )


def single(what: str, value: object, least: int) -> tuple[int]:
    """Return (length,) of an integer or a tuple of one of at least `least`."""
    given = tuple(value) if isinstance(value, tuple | list) else (value,)
    number = as_integer(given[0]) if len(given) == 1 else None
    if number is not None and _in_window(least, number):
        return (number,)
    raise ArgumentError(f"{what} needs an integer from {least} to {MAX_WINDOW}, got {value!r}")


def as_pair(sizes: tuple[int, ...], height: int) -> Pair:
    """Return (height, width) of what is said of one side or of both."""
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (height, sizes[0])


def _in_window(least: int, *numbers: int) -> bool:
    """Tell whether all numbers are in the range of a window's arguments."""
    return all(least <= n <= MAX_WINDOW for n in numbers)


def refuse_unless(what: str, value: object, only: object) -> object:
    """Return an argument that has one available value only; refuse every other one."""
    number = as_integer(value) if isinstance(only, int) and not isinstance(only, bool) else None
    plain = value if number is None else number
    if type(plain) is not type(only) or plain != only:
        raise ArgumentError(f"{what}={value!r} is not available; use {only!r}")
    return plain


def refuse_unlike(what: str, name: str, member: object, shape: tuple[int, ...]) -> None:
    """Refuse a parameter or buffer of another shape than the layer's arguments say.

    An argument that was changed later changes no array: the layer would go on as it was.
    """
    held = getattr(member, "shape", shape)
    if held != shape:
        raise ArgumentError(
            f"{what} needs {name} of shape {shape}, it has {held}: make a new layer with these "
            f"arguments, or replace {name} too"
        )


def batch_leads(what: str, value: object) -> bool:
    """Return True; sequences of steps of batches are not available."""
    if not truth(what, value):
        raise ArgumentError(
            f"{what}=False is not available: the first dimension of every value is the batch; "
            "give batch_first=True and sequences of shape (N, L, features)"
        )
    return True
