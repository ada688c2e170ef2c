"""Storage media as inputs of a plan: by their name on a board, or from a profile file."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass

from armtrain.board.checks import check_storage
from armtrain.board.profile import Board
from armtrain.board.schema import read_table
from armtrain.board.sections import Storage
from armtrain.errors import ArgumentError, PlanError, StorageError
from armtrain.files import read_regular

__all__ = ["Medium", "load_medium"]


@dataclass(frozen=True)
class Medium:
    """What a plan keeps of a storage medium: its rates, without their sources.

    Attributes
    ----------
    id, kind : str
        As in the profile, such as 'sd-ddr50' and 'sd'.
    read_mb_s, write_mb_s : float
        Sequential, 10^6 bytes per second.
    read_latency_us, write_latency_us : float
        Of one 4 KiB access, microseconds.
    """

    id: str
    kind: str
    read_mb_s: float
    write_mb_s: float
    read_latency_us: float
    write_latency_us: float

    @staticmethod
    def of(storage: Storage) -> Medium:
        """Return the rates of a profile's storage table."""
        return Medium(
            storage.id,
            storage.kind,
            float(storage.read_mb_s.value),
            float(storage.write_mb_s.value),
            float(storage.read_latency_us.value),
            float(storage.write_latency_us.value),
        )

    @staticmethod
    def from_json(value: object) -> Medium:
        """Return the medium in a plan's description.

        Raises
        ------
        PlanError
            When an entry is missing, unknown, of a wrong type, or no positive number.
        """
        medium = read_table(Medium, value, "meta entry 'storage'")
        rates = {k: v for k, v in vars(medium).items() if isinstance(v, float)}
        for name, rate in rates.items():
            if not 0 < rate < math.inf:
                raise PlanError(f"meta entry 'storage': {name} is {rate}, no positive number")
        return medium


def load_medium(name_or_path: str, board: Board) -> Medium:
    """Return a storage medium.

    Parameters
    ----------
    name_or_path : str
        Id in the storage tables of `board`, or the path of a TOML file (ending in '.toml') whose
        first `[[storage]]` table counts: a board profile, or a file with such a table alone.
    board : Board

    Raises
    ------
    ArgumentError
        There is no such medium; with those that the board has.
    PlanError
        The file is not valid.
    """
    if not isinstance(name_or_path, str):
        raise ArgumentError(f"a storage is an id or the path of a profile, got {name_or_path!r}")
    if name_or_path.endswith(".toml"):
        return Medium.of(_first_of_file(name_or_path))
    for storage in board.storage:
        if storage.id == name_or_path:
            return Medium.of(storage)
    known = ", ".join(s.id for s in board.storage)
    has = f"it has {known}" if known else "its profile describes none"
    raise ArgumentError(
        f"board '{board.id}' has no storage '{name_or_path}': {has}; name one of its media, "
        "another board, or a file ending in .toml with a [[storage]] table"
    )


def _first_of_file(path: str) -> Storage:
    """Return the first storage table of a file."""
    where = f"storage profile '{path}'"
    try:
        values = tomllib.loads(read_regular(path, "the storage profile ").decode("utf-8-sig"))
    except (StorageError, ValueError) as error:
        raise PlanError(f"cannot read the {where}: {error}") from None
    tables = values.get("storage")
    if not isinstance(tables, list) or not tables:
        raise PlanError(f"{where} has no [[storage]] table")
    medium = read_table(Storage, tables[0], f"{where}: storage[0]")
    check_storage([medium], where)
    return medium
