"""TOML tables to typed values: a dataclass is the schema, every field is checked.

A number that describes hardware is a table of its value and where it comes from, under a key that
ends in its unit: `clock_mhz = { value = 1500, source = "datasheet: ..." }`.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar

from armtrain.errors import PlanError

__all__ = ["Quantities", "Quantity", "check_source", "read_table", "shown"]

T = TypeVar("T")
RANGES = {
    "_mhz": (10.0, 20_000.0),
    "_kib": (1.0, 65_536.0),
    "_mib": (1.0, 262_144.0),
    "_mb_s": (0.1, 100_000.0),
    "_us": (0.1, 1_000_000.0),
    "_w": (0.01, 1_000.0),
    "_c": (20.0, 150.0),
    "_flop_per_cycle": (0.01, 1_024.0),
    "_gflop_s": (0.001, 100_000.0),
    "baud": (50.0, 10_000_000.0),
}
"""Ending of a field's name, which is its unit, to the smallest and largest value: wide enough for
any board, narrow enough that bytes are not taken for KiB, nor GHz for MHz."""
_TYPES = {str: "a string", int: "an integer", float: "a float", bool: "true or false"}
_MOST_SHOWN = 200
SOURCE = re.compile(r"(datasheet|measured|kernel|derived): \S.*|assumed(: \S.*)?")
"""What a source may be: the maker's papers, somebody's measurement, the kernel's sources or device
trees, arithmetic on other entries, or an assumption."""


@dataclass(frozen=True)
class Quantity:
    """A number with its source; the unit is in the name of the field that holds it."""

    value: float
    source: str


@dataclass(frozen=True)
class Quantities:
    """Alternatives, such as the sizes of memory that a board is sold with, and their source."""

    values: tuple[float, ...]
    source: str


def shown(value: object) -> str:
    """Return what a file holds as a message shows it, whatever its size."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of too many digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def check_source(text: object, where: str) -> str:
    """Return a source that says what kind of source it is.

    Raises
    ------
    PlanError
        When it does not.
    """
    if not isinstance(text, str) or not SOURCE.fullmatch(text):
        raise PlanError(
            f"{where}: source must be 'datasheet: ...', 'measured: ...', 'kernel: ...', "
            f"'derived: ...' or 'assumed', is {shown(text)}"
        )
    return text


def read_table(kind: type[T], table: object, where: str) -> T:
    """Return the dataclass `kind` filled from a TOML table.

    Parameters
    ----------
    kind : type
        A dataclass whose annotations are str, int, Literal of str, tuple of str or int, Quantity,
        Quantities, another dataclass, a tuple of dataclasses, or one of these or None.
    table : object
        What the TOML file holds there.
    where : str
        Named in messages.

    Raises
    ------
    PlanError
        When a field is missing, unknown, or of another type.
    """
    if not isinstance(table, dict):
        raise PlanError(f"{where} must be a table, is {shown(table)}")
    hints = _hints(typing.cast(Any, kind))
    known = {f.name: f for f in fields(typing.cast(Any, kind))}
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise PlanError(f"{where}: '{unknown[0]}' is unknown; possible are {', '.join(known)}")
    values = {}
    for name, field in known.items():
        if name in table:
            values[name] = _read(hints[name], table[name], f"{where}: '{name}'")
        elif field.default is MISSING and field.default_factory is MISSING:
            # Reading nothing says which type is missing.
            _read(hints[name], None, f"{where}: '{name}'")
    if "source" in values:
        check_source(values["source"], where)
    return kind(**values)


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    """Return the annotations of a dataclass; looking them up costs more than reading a table."""
    return typing.get_type_hints(kind)


def _read(hint: Any, value: object, where: str) -> Any:
    """Return a value of the annotated type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        (hint,) = (a for a in arguments if a is not type(None))
        return _read(hint, value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise PlanError(f"{where} must be a list, is {shown(value)}")
        return tuple(_read(arguments[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin is Literal:
        if not any(value == a and type(value) is type(a) for a in arguments):
            possible = ", ".join(str(a) for a in arguments)
            raise PlanError(f"{where} must be one of {possible}, is {shown(value)}")
        return value
    if hint in _SOURCED:
        return _SOURCED[hint](value, where)
    if is_dataclass(hint):
        return read_table(typing.cast(type[Any], hint), value, where)
    if not isinstance(value, hint) or isinstance(value, bool) != (hint is bool):
        raise PlanError(f"{where} must be {_TYPES[hint]}, is {shown(value)}")
    return value


def _quantity(value: object, where: str) -> Quantity:
    """Return a number with its source."""
    number, source = _sourced(value, where)
    return Quantity(_in_range(number, where), source)


def _quantities(value: object, where: str) -> Quantities:
    """Return several numbers with their source."""
    numbers, source = _sourced(value, where)
    if not isinstance(numbers, list) or not numbers:
        raise PlanError(f"{where}: value must be a list of numbers, is {shown(numbers)}")
    return Quantities(tuple(_in_range(n, where) for n in numbers), source)


def _sourced(value: object, where: str) -> tuple[Any, str]:
    """Return the parts of `{ value = ..., source = "..." }`."""
    if not isinstance(value, dict) or set(value) != {"value", "source"}:
        raise PlanError(f'{where} must be {{ value = ..., source = "..." }}, is {shown(value)}')
    return value["value"], check_source(value["source"], where)


def _in_range(value: object, where: str) -> float:
    """Return a number that a field of this name, the last word of `where`, can have."""
    name = where.rstrip("'")
    low, high = next(limits for ending, limits in RANGES.items() if name.endswith(ending))
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low <= typing.cast(float, value) <= high:
        raise PlanError(
            f"{where} must be a positive number from {low:.15g} to {high:.15g} in the unit of its "
            f"name, is {shown(value)}"
        )
    return typing.cast(float, value)


_SOURCED: dict[object, Callable[[object, str], Any]] = {
    Quantity: _quantity,
    Quantities: _quantities,
}
