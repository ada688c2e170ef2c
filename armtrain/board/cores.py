"""Processor cores, read from boards/cores.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from armtrain.board.files import built_in
from armtrain.board.schema import read_table
from armtrain.board.sections import Core

__all__ = ["core_of", "load_cores"]


@cache
def load_cores() -> Mapping[str, Core]:
    """Return all known cores by their id, such as 'cortex-a72'; read once."""
    tables = tomllib.loads((built_in() / "cores.toml").read_text(encoding="utf-8"))
    cores = {name: read_table(Core, table, f"core '{name}'") for name, table in tables.items()}
    return MappingProxyType(cores)


def core_of(implementer: int, part: int) -> str | None:
    """Return the id of the core with these register fields, None when it is not known."""
    for name, core in load_cores().items():
        if (core.midr_implementer, core.midr_part) == (implementer, part):
            return name
    return None
