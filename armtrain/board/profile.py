"""Board profiles as typed values, read from `boards/ID.toml` or any TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from difflib import get_close_matches

from armtrain.board.checks import (
    check_clusters,
    check_memory,
    check_name,
    check_storage,
    check_threads,
)
from armtrain.board.cores import load_cores
from armtrain.board.files import NOT_BOARDS, built_in
from armtrain.board.schema import read_table
from armtrain.board.sections import (
    Cluster,
    Compute,
    Console,
    Detect,
    Memory,
    Power,
    Storage,
    Throttling,
    Toolchain,
)
from armtrain.errors import ArgumentError, PlanError, StorageError
from armtrain.files import read_regular

__all__ = ["Board", "board_ids", "load_board"]


@dataclass(frozen=True)
class Board:
    """What is known of a board; planning uses `id`, `threads` and how fast it computes.

    Attributes
    ----------
    id : str
        Written into plans.
    name : str
        For people.
    threads : int
        Threads to plan for; a profile that does not say it gets the cores of its first cluster.
    soc : str
        Chip, empty when unknown.
    clusters : tuple of Cluster
        The cluster to train on comes first: on a mixed chip, the big cores.
    compute, memory, detect, console, power, throttling : section or None
    storage : tuple of Storage
        The medium that a board usually has comes first.
    toolchains : tuple of Toolchain
        The usual userland comes first.
    """

    id: str
    name: str
    threads: int
    soc: str = ""
    detect: Detect | None = None
    clusters: tuple[Cluster, ...] = ()
    compute: Compute | None = None
    memory: Memory | None = None
    storage: tuple[Storage, ...] = ()
    console: Console | None = None
    power: Power | None = None
    throttling: Throttling | None = None
    toolchains: tuple[Toolchain, ...] = ()

    @property
    def cores(self) -> int:
        """Cores of all clusters, 0 when none are described."""
        return sum(len(c.cpus) for c in self.clusters)

    @property
    def peak_gflops(self) -> float | None:
        """Best fp32 rate of all cores in 10^9 operations per second; None without clusters."""
        known = load_cores()
        if not self.clusters:
            return None
        return (
            sum(
                len(c.cpus) * c.clock_mhz.value * known[c.core].fp32_flop_per_cycle.value
                for c in self.clusters
            )
            / 1000
        )

    def toolchain(self, userland_bits: int) -> Toolchain | None:
        """Return what to build for a userland of this width, None when it cannot have one."""
        return next((t for t in self.toolchains if t.userland_bits == userland_bits), None)


def board_ids() -> list[str]:
    """Return the ids of all built-in profiles."""
    names = (entry.name for entry in built_in().iterdir())
    ids = (name.removesuffix(".toml") for name in names if name.endswith(".toml"))
    return sorted(i for i in ids if i not in NOT_BOARDS)


def _parse(text: str, where: str) -> Board:
    """Return the profile in a TOML text."""
    where = f"board profile {where}"
    try:
        values = tomllib.loads(text)
    except ValueError as error:
        raise PlanError(f"{where} is no TOML: {error}") from None
    derived = "threads" not in values and bool(values.get("clusters"))
    board = read_table(Board, {"threads": 1} | values if derived else values, where)
    check_name(board.id, f"{where}: 'id'")
    check_name(board.name, f"{where}: 'name'")
    check_clusters(board.clusters, where)
    if derived:
        board = replace(board, threads=len(board.clusters[0].cpus))
    check_threads(board.threads, board.cores, where)
    check_memory(board.memory, where)
    check_storage(board.storage, where)
    return board


def load_board(id_or_path: str) -> Board:
    """Return a board profile.

    Parameters
    ----------
    id_or_path : str
        Id of a built-in profile, or the path of a profile file (ending in '.toml').

    Raises
    ------
    ArgumentError
        There is no such profile; with similar and all known ids.
    PlanError
        The profile is not valid.
    """
    if not isinstance(id_or_path, str):
        raise ArgumentError(f"a board is an id or the path of a profile, got {id_or_path!r}")
    if id_or_path.endswith(".toml"):
        try:
            content = read_regular(id_or_path, "the board profile ").decode("utf-8-sig")
        except StorageError as error:
            raise PlanError(str(error)) from None
        except UnicodeDecodeError as error:
            raise PlanError(f"cannot read the board profile '{id_or_path}': {error}") from None
        return _parse(content, f"'{id_or_path}'")
    known = board_ids()
    if id_or_path not in known:
        close = get_close_matches(id_or_path, known, n=3, cutoff=0.4)
        hint = f"similar are {', '.join(close)}; " if close else ""
        raise ArgumentError(
            f"there is no board {id_or_path!r}: {hint}known are {', '.join(known)}, or name a "
            "profile file ending in .toml"
        )
    text = (built_in() / f"{id_or_path}.toml").read_text(encoding="utf-8")
    return _parse(text, f"'{id_or_path}'")
