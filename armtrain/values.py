"""Checks of plain arguments: what counts as an integer, a number or a truth value, and its range.

NumPy's scalars count as what they hold; truth values are no numbers, nor the other way round.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf, isfinite, nextafter
from numbers import Real
from operator import index
from typing import TypeVar

from armtrain.errors import ArgumentError

T = TypeVar("T")

__all__ = [
    "as_integer",
    "as_real",
    "as_tuple",
    "integer",
    "known_kind",
    "real",
    "truth",
    "what_was_given",
]


def as_integer(value: object) -> int | None:
    """Return an integer of any kind as an int, None for anything else.

    Examples
    --------
    >>> as_integer(3), as_integer(3.0), as_integer(True)
    (3, None, None)
    """
    if isinstance(value, bool):
        return None
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def as_real(value: object) -> float | None:
    """Return a number of any kind as a float, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return inf


def as_tuple(value: object) -> tuple[object, ...] | None:
    """Return what an iterable holds, None for anything else, also for arrays without dimensions."""
    try:
        return tuple(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def _text(bound: float) -> str:
    """Return a bound as people write it."""
    return "below 1" if nextafter(bound, inf) == 1.0 else f"{bound:g}"


def integer(what: str, value: object, low: int, high: int) -> int:
    """Return `value` as an int.

    Raises
    ------
    ArgumentError
        It is no integer, or not in [low, high].
    """
    number = as_integer(value)
    if number is None or not low <= number <= high:
        raise ArgumentError(f"{what} needs an integer from {low} to {high}, got {value!r}")
    return number


def real(what: str, value: object, low: float, high: float, smallest: float = 0.0) -> float:
    """Return `value` as a float.

    Parameters
    ----------
    what : str
        The argument, for the message.
    value : object
    low, high : float
        Both ends are possible.
    smallest : float
        Smallest magnitude of a number that is not 0.

    Raises
    ------
    ArgumentError
        It is no finite number, or not in its range.
    """
    number = as_real(value)
    if number is None or not isfinite(number) or not low <= number <= high:
        raise ArgumentError(
            f"{what} needs a finite number from {_text(low)} to {_text(high)}, got {value!r}"
        )
    if number != 0.0 and abs(number) < smallest:
        raise ArgumentError(
            f"{what}: {value!r} is too small for a float32, which would hold 0; give 0 or at "
            f"least {smallest:.9g}"
        )
    return number


def truth(what: str, value: object) -> bool:
    """Return `value` as a bool.

    Text is refused, of which 'False' would count as true, and so are numbers.

    Raises
    ------
    ArgumentError
        It is neither True nor False.

    Examples
    --------
    >>> truth("bias", False)
    False
    """
    numpy_scalar = (
        getattr(value, "shape", None) == () and str(getattr(value, "dtype", "")) == "bool"
    )
    if not isinstance(value, bool) and not numpy_scalar:
        raise ArgumentError(f"{what} needs True or False, got {value!r:.80}")
    return bool(value)


def known_kind(
    value: object, kinds: Collection[type[T]]
) -> tuple[type[T] | None, tuple[type, ...]]:
    """Return which of `kinds` a value is, None for none, and the classes that derive it from there.

    Examples
    --------
    >>> known_kind(True, (int,))
    (<class 'int'>, (<class 'bool'>,))
    """
    line = type(value).__mro__
    kind = next((k for k in line if k in kinds), None)
    return kind, () if kind is None else line[: line.index(kind)]


def what_was_given(value: object, parser: str, call: str) -> str:
    """Name what was given instead of a description, with the way out where there is one.

    Parameters
    ----------
    value : object
    parser : str
        What makes a description of a text, as 'nn.parse_loss makes a loss of a text'.
    call : str
        How a class is called, its name in braces: 'nn.{}()'.
    """
    if isinstance(value, str):
        return f"{value!r:.80}; {parser}"
    if isinstance(value, type):
        return f"the class {value.__name__}; call it, as in {call.format(value.__name__)}"
    kind = type(value)
    home = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{home}{kind.__qualname__}"
