"""Board profiles as typed values, read from `boards/ID.toml` or any TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from armtrain.errors import PlanError

__all__ = ["Board", "board_ids", "load_board"]

MAX_THREADS = 64
"""Most threads that the engine's pool has room for."""


@dataclass(frozen=True)
class Board:
    """What planning knows of a board.

    Attributes
    ----------
    id : str
        Written into plans.
    name : str
        For people.
    threads : int
        Threads to plan for: the cores of the fastest cluster.
    """

    id: str
    name: str
    threads: int


def _folder() -> Traversable:
    """Return the folder of built-in profiles: of the installed package, else of the source tree."""
    source = Path(__file__).resolve().parents[2] / "boards"
    if (source / "generic.toml").is_file():
        return source
    return files("armtrain.boards")


def board_ids() -> list[str]:
    """Return the ids of all built-in profiles."""
    names = (entry.name for entry in _folder().iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def _field(values: dict[str, Any], key: str, kind: type, where: str) -> Any:
    """Return a profile's entry of the right type."""
    value = values.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise PlanError(f"board profile {where}: '{key}' must be a {kind.__name__}, is {value!r}")
    return value


def _parse(text: str, where: str) -> Board:
    """Return the profile in a TOML text."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"board profile {where} is no TOML: {error}") from None
    board = Board(
        _field(values, "id", str, where),
        _field(values, "name", str, where),
        _field(values, "threads", int, where),
    )
    if not 1 <= board.threads <= MAX_THREADS:
        raise PlanError(
            f"board profile {where}: {board.threads} threads, 1 to {MAX_THREADS} are possible"
        )
    return board


def load_board(id_or_path: str) -> Board:
    """Return a board profile.

    Parameters
    ----------
    id_or_path : str
        Id of a built-in profile, or the path of a profile file (ending in '.toml').

    Raises
    ------
    PlanError
        When there is no such profile, with the known ids, or it is not valid.
    """
    if id_or_path.endswith(".toml"):
        try:
            return _parse(Path(id_or_path).read_text(encoding="utf-8"), f"'{id_or_path}'")
        except (OSError, UnicodeDecodeError) as error:
            raise PlanError(f"cannot read the board profile '{id_or_path}': {error}") from None
    known = board_ids()
    if id_or_path not in known:
        raise PlanError(
            f"there is no board '{id_or_path}': known are {', '.join(known)}, or name a profile "
            "file ending in .toml"
        )
    text = (_folder() / f"{id_or_path}.toml").read_text(encoding="utf-8")
    return _parse(text, f"'{id_or_path}'")
