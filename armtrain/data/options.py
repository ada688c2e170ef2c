"""Options behind the file of a SPEC: 'FILE?key=value&key=value', as in a web address.

A character with a meaning of its own is written as its percent code: %26 is '&', %3F is '?'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from armtrain.errors import DataError

__all__ = [
    "Option",
    "Parser",
    "choice",
    "names",
    "parse_options",
    "real",
    "split_options",
    "whole",
    "word",
]

Parser = Callable[[str], Any]
"""Returns the value of an option's text; raises ValueError saying what is possible."""


@dataclass(frozen=True)
class Option:
    """One option: its parser, and what the help says of it."""

    parse: Parser
    help: str


def split_options(rest: str) -> tuple[str, str]:
    """Return path and options of 'FILE?options'; the last question mark divides them."""
    path, mark, options = rest.rpartition("?")
    return (path, options) if mark and (not options or "=" in options) else (rest, "")


def parse_options(spec: str, text: str, known: Mapping[str, Option]) -> dict[str, Any]:
    """Parse 'key=value&key=value'.

    Parameters
    ----------
    spec : str
        The whole SPEC, for messages.
    text : str
    known : mapping of str to Option

    Raises
    ------
    DataError
        An option is unknown, given twice, or its value is none.
    """
    options: dict[str, Any] = {}
    for word in text.split("&") if text else ():
        key, equals, value = word.partition("=")
        if not equals or key not in known or key in options:
            listed = ", ".join(known)
            raise DataError(f"'{spec}': '{word}' is no option or a second one; there are {listed}")
        try:
            options[key] = known[key].parse(unquote(value))
        except ValueError as error:
            raise DataError(f"'{spec}': {key} needs {error}, got '{value}'") from error
    return options


def choice(*words: str) -> Parser:
    """Return the parser of one of some words."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(" or ".join(words))
        return text

    return parse


def names(text: str) -> tuple[str, ...]:
    """Parse names between commas."""
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts) or len(set(parts)) != len(parts):
        raise ValueError("different names between commas")
    return parts


def word(text: str) -> str:
    """Parse a text that is not empty."""
    if not text:
        raise ValueError("a name")
    return text


def whole(low: int, high: int) -> Parser:
    """Return the parser of a whole number."""

    def parse(text: str) -> int:
        decimal = text.isascii() and text.isdecimal() and len(text) <= len(str(high))
        if not decimal or not low <= int(text) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return int(text)

    return parse


def real(text: str) -> float:
    """Parse a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError("a finite number above 0")
    return value
