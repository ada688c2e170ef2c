"""Typed tables: every field is checked, every number says where it comes from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import pytest

from armtrain.board.schema import RANGES, Quantities, Quantity, check_source, read_table
from armtrain.errors import PlanError


@dataclass(frozen=True)
class Part:
    size: int


@dataclass(frozen=True)
class Table:
    name: str
    kind: Literal["a", "b"]
    clock_mhz: Quantity
    parts: tuple[Part, ...] = ()
    ram_mib: Quantities | None = None
    spare: bool = False


GOOD = {"name": "n", "kind": "a", "clock_mhz": {"value": 1500.5, "source": "assumed"}}


def test_a_full_table() -> None:
    table = GOOD | {
        "parts": [{"size": 1}],
        "ram_mib": {"value": [1, 2], "source": "derived: x"},
        "spare": True,
    }
    assert read_table(Table, table, "t") == Table(
        "n",
        "a",
        Quantity(1500.5, "assumed"),
        (Part(1),),
        Quantities((1, 2), "derived: x"),
        True,
    )


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"nmae": "x"}, "'nmae' is unknown; possible are name, kind"),
        ({"name": 3}, "'name' must be a string, is 3"),
        ({"kind": "c"}, "'kind' must be one of a, b, is 'c'"),
        ({"clock_mhz": 1500}, "must be { value"),
        ({"clock_mhz": {"value": 1}}, "must be { value"),
        ({"clock_mhz": {"value": 0, "source": "assumed"}}, "positive number"),
        ({"clock_mhz": {"value": True, "source": "assumed"}}, "positive number"),
        ({"clock_mhz": {"value": float("inf"), "source": "assumed"}}, "positive number"),
        ({"clock_mhz": {"value": float("nan"), "source": "assumed"}}, "positive number"),
        ({"clock_mhz": {"value": 1.5, "source": "assumed"}}, "from 10 to 20000 .* is 1.5"),
        ({"clock_mhz": {"value": 10**400, "source": "assumed"}}, r"is 10{199}\.\.\.$"),
        ({"clock_mhz": {"value": 1 << 20000, "source": "assumed"}}, "too many digits"),
        ({"ram_mib": {"value": [1024, 1048576], "source": "assumed"}}, "from 1 to 262144"),
        ({"clock_mhz": {"value": 1, "source": "I think"}}, "source must be 'datasheet: ...'"),
        ({"parts": {"size": 1}}, "'parts' must be a list"),
        ({"parts": [{"size": "1"}]}, r"'parts'\[0\]: 'size' must be an integer"),
        ({"parts": [{"size": True}]}, "must be an integer, is True"),
        ({"parts": [7]}, "must be a table, is 7"),
        ({"ram_mib": {"value": [], "source": "assumed"}}, "list of numbers"),
        ({"ram_mib": {"value": 4, "source": "assumed"}}, "list of numbers"),
        ({"spare": 1}, "must be true or false, is 1"),
    ],
)
def test_what_is_refused(change: dict[str, object], cause: str) -> None:
    with pytest.raises(PlanError, match=cause):
        read_table(Table, GOOD | change, "t")


def test_a_missing_field() -> None:
    with pytest.raises(PlanError, match="'name' must be a string, is None"):
        read_table(Table, {}, "t")


@pytest.mark.parametrize("source", ["assumed", "assumed: why", "datasheet: x", "measured: who"])
def test_sources(source: str) -> None:
    assert check_source(source, "t") == source


@pytest.mark.parametrize("source", ["", "datasheet", "measured: ", "wikipedia: x", None])
def test_what_is_no_source(source: object) -> None:
    with pytest.raises(PlanError, match="source must be"):
        check_source(source, "t")


def test_every_number_of_a_profile_has_its_unit_in_its_name() -> None:
    from armtrain.board import sections

    for name in sections.__all__:
        for field in fields(getattr(sections, name)):
            if str(field.type).startswith("Quantit"):
                assert field.name.endswith(tuple(RANGES)), f"{name}.{field.name}"
