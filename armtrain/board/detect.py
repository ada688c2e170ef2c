"""Which board is this? Profiles are the table; this file holds no name of any board.

In this order: an entry of the device tree's `compatible`; the model name; the nearest board, by a
similar name or the same chip; the kind of userland. Every answer comes with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from armtrain.board.identity import Identity, System, read_identity, read_system
from armtrain.board.profile import Board, board_ids, load_board

__all__ = ["Detection", "detect", "match", "userland_architecture"]

# Machine names of kernels by their beginning, with the width of a pointer: what programs are
# built for. A 32-bit program on a 64-bit ARM kernel may see either name.
_USERLANDS = (
    ("aarch64", 64, "aarch64"),
    ("arm64", 64, "aarch64"),
    ("aarch64", 32, "armv7l"),
    ("arm64", 32, "armv7l"),
    ("armv8", 32, "armv7l"),
    ("armv7", 32, "armv7l"),
    ("armv6", 32, "armv6l"),
    ("x86_64", 64, "x86_64"),
    ("x86_64", 32, "i686"),
)
_LAST = "generic"


@dataclass(frozen=True)
class Detection:
    """The board that was found.

    Attributes
    ----------
    board : Board
    exact : bool
        False when it is only the nearest board or a generic one.
    reason : str
    model : str
        What the machine calls itself, empty when it does not say.
    architecture : str
        What programs must be built for: the architecture in a wheel's tag.
    """

    board: Board
    exact: bool
    reason: str
    model: str
    architecture: str


def userland_architecture(machine: str, userland_bits: int) -> str:
    """Return the architecture in a wheel's tag; the machine name itself when it is not known.

    Parameters
    ----------
    machine : str
        Machine name of the kernel.
    userland_bits : int
        Width of a pointer in programs.
    """
    for beginning, bits, architecture in _USERLANDS:
        if machine.startswith(beginning) and bits == userland_bits:
            return architecture
    return machine


def detect(root: Path = Path("/")) -> Detection:
    """Return the board that the files below `root` describe; never raises for unknown ones."""
    return match(read_identity(root), read_system(root))


def match(identity: Identity, system: System) -> Detection:
    """Return the board with this identity."""
    boards = [load_board(i) for i in board_ids()]
    architecture = userland_architecture(system.machine, system.userland_bits)
    found = (
        _by_compatible(boards, identity)
        or _by_model(boards, identity)
        or _by_likeness(boards, identity)
        or _by_chip(boards, identity)
        or _by_userland(boards, identity, architecture)
    )
    board, exact, reason = found
    return Detection(board, exact, reason, next(iter(identity.models), ""), architecture)


_Found = tuple[Board, bool, str] | None


def _by_compatible(boards: list[Board], identity: Identity) -> _Found:
    """Find the first entry of `compatible` that names a board."""
    for entry in identity.compatible:
        for board in boards:
            if board.detect and entry in board.detect.compatible:
                return board, True, f"the device tree is compatible with {entry}"
    return None


def _by_model(boards: list[Board], identity: Identity) -> _Found:
    """Find the longest model name that ends at a word boundary; any revision may follow."""
    for model in identity.models:
        board = _longest(boards, model, " ")
        if board:
            return board, True, f"the model is '{model}'"
    return None


def _by_likeness(boards: list[Board], identity: Identity) -> _Found:
    """Find the nearest board: one whose model name begins alike, within a word."""
    for model in identity.models:
        board = _longest(boards, model, "")
        if board:
            reason = f"'{model}' is not known; its name begins like that of this board"
            return board, False, f"{reason}: check cores, memory and storage"
    return None


def _longest(boards: list[Board], model: str, end: str) -> Board | None:
    """Return the board with the longest name that `model` begins with, followed by `end`."""
    fitting = [
        (len(name), board.id, board)
        for board in boards
        for name in (board.detect.models if board.detect else ())
        if f"{model}{end}".lower().startswith(f"{name}{end}".lower())
    ]
    return max(fitting, key=lambda found: found[:2])[2] if fitting else None


def _by_chip(boards: list[Board], identity: Identity) -> _Found:
    """Find the nearest board: one with the same chip."""
    for entry in identity.compatible:
        for board in boards:
            if board.detect and entry in board.detect.near_compatible:
                who = next(iter(identity.models), identity.compatible[0])
                reason = f"'{who}' is not known; this board has the same chip, {entry}"
                return board, False, f"{reason}: check memory and storage"
    return None


def _by_userland(
    boards: list[Board], identity: Identity, architecture: str
) -> tuple[Board, bool, str]:
    """Return the fallback for what programs are built for."""
    why = (
        f"'{identity.models[0]}' is not known"
        if identity.models
        else "no device tree and no model name can be read"
    )
    for board in boards:
        tags = {t.wheel_tag for t in board.toolchains}
        if board.detect and board.detect.fallback and architecture in tags:
            return board, False, f"{why}; programs are {architecture}"
    return load_board(_LAST), False, f"{why}; there is no profile for {architecture}"
