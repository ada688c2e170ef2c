"""Choosing parameters by name: patterns of `train_only` and of parameter groups."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from armtrain.errors import ArgumentError

__all__ = ["as_patterns", "matches", "select"]


def as_patterns(patterns: str | Sequence[str]) -> tuple[str, ...]:
    """Return one pattern or several as a tuple."""
    given = patterns if isinstance(patterns, list | tuple | set | frozenset) else (patterns,)
    wrong = [p for p in given if not isinstance(p, str)]
    if wrong or not given:
        raise ArgumentError(
            f"parameters are chosen by a pattern of their names or a list of patterns, such as "
            f"'fc.*'; got {patterns!r}"
        )
    return tuple(given)


def matches(name: str, pattern: str) -> bool:
    """Whether a parameter's name, or the path of a module that contains it, fits `pattern`."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, pattern + ".*")


def select(what: str, names: Sequence[str], patterns: Sequence[str]) -> frozenset[str]:
    """Return the names that fit any pattern.

    Raises
    ------
    ArgumentError
        A pattern fits nothing.
    """
    chosen: set[str] = set()
    for pattern in patterns:
        fitting = [name for name in names if matches(name, pattern)]
        if not fitting:
            close = get_close_matches(pattern, names, n=3, cutoff=0.3) or list(names)[:3]
            raise ArgumentError(
                f"{what}: '{pattern}' fits no parameter; similar names are {', '.join(close)}, "
                "and 'layer.*' means all of a layer"
            )
        chosen.update(fitting)
    return frozenset(chosen)
