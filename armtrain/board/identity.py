"""What a machine says it is: device tree, processor list, machine name, capability words.

Every file is read below a root folder: '/', or a folder written by scripts/capture_board.py, whose
`capture.toml` holds what no file of a running system tells.
"""

from __future__ import annotations

import mmap
import os
import struct
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from armtrain.board.schema import read_table
from armtrain.errors import PlanError

__all__ = [
    "CAPTURE",
    "Identity",
    "System",
    "decimal",
    "is_captured",
    "read_identity",
    "read_system",
    "read_text",
]

CAPTURE = "capture.toml"
_TREES = ("proc/device-tree", "sys/firmware/devicetree/base")
_AUXV = "proc/self/auxv"
_AT_HWCAP = 16
_MOST_DIGITS = 20  # of 64 bits; Python refuses to read some thousands


@dataclass(frozen=True)
class System:
    """Facts about a running system that no file tells.

    Attributes
    ----------
    machine : str
        Machine name of the kernel, as `uname -m`.
    release : str
        Release of the kernel.
    userland_bits : int
        32 or 64: the width of a pointer.
    page_bytes : int
    usable_cpus : int
    storage_path : str
        Directory for data and checkpoints, 'unknown' when there is none.
    storage_free_bytes : int or None
        None when the directory cannot be read, as one that was deleted.
    hwcap : int
        First capability word of the auxiliary vector, 0 when it is not known.
    origin : str
        Where a captured system comes from, empty for this machine.
    """

    machine: str
    release: str
    userland_bits: int
    page_bytes: int
    usable_cpus: int
    storage_path: str
    storage_free_bytes: int | None
    hwcap: int = 0
    origin: str = ""


@dataclass(frozen=True)
class Identity:
    """What names a board.

    Attributes
    ----------
    compatible : tuple of str
        The device tree's list, most specific first; empty without a device tree.
    models : tuple of str
        Names of the machine, most trustworthy first.
    parts : tuple of (int, int)
        Implementer and part of every processor, in the order of /proc/cpuinfo; ARM only.
    processors : int
        Processors in /proc/cpuinfo.
    features : tuple of str
        Words of the first Features line; empty when there is none.
    """

    compatible: tuple[str, ...]
    models: tuple[str, ...]
    parts: tuple[tuple[int, int], ...]
    features: tuple[str, ...]
    processors: int = 0


def read_text(path: Path) -> str | None:
    """Return a small file's text, None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def decimal(word: str) -> int | None:
    """Return the number that a file of the kernel spells, None for anything else."""
    spelled = word.isascii() and word.isdecimal() and len(word) <= _MOST_DIGITS
    return int(word) if spelled else None


def is_captured(root: Path) -> bool:
    """Say whether `root` holds a captured machine and not this one."""
    return root != Path("/") and (root / CAPTURE).is_file()


def read_system(root: Path = Path("/"), directory: str | None = None) -> System:
    """Return the facts of this machine, or of the captured one in `root`.

    Parameters
    ----------
    root : Path
    directory : str, optional
        Directory to look at for storage; the current one by default.

    Raises
    ------
    PlanError
        When `root` holds a `capture.toml` that is not valid.
    """
    path = root / CAPTURE
    if is_captured(root):
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PlanError(f"cannot read the captured machine '{path}': {error}") from None
        return read_table(System, table, f"captured machine '{path}'")
    name = os.uname()
    real, free = _storage(directory)
    return System(
        machine=name.machine,
        release=name.release,
        userland_bits=8 * struct.calcsize("P"),
        page_bytes=mmap.PAGESIZE,
        usable_cpus=len(os.sched_getaffinity(0)),
        storage_path=real,
        storage_free_bytes=free,
        hwcap=_hwcap(root, 8 * struct.calcsize("P")),
    )


def _storage(directory: str | None) -> tuple[str, int | None]:
    """Return a directory and its free bytes; a current directory that was deleted has neither."""
    try:
        real = os.path.realpath(directory or os.getcwd())
        room = os.statvfs(real)
    except OSError:
        return "unknown", None
    return real, room.f_bavail * room.f_frsize


def _hwcap(root: Path, bits: int) -> int:
    """Return the first capability word of this process, 0 if it cannot be read."""
    try:
        data = (root / _AUXV).read_bytes()
    except OSError:
        return 0
    pair = struct.Struct("@QQ" if bits == 64 else "@II")
    whole = len(data) - len(data) % pair.size
    return next((int(v) for key, v in pair.iter_unpack(data[:whole]) if key == _AT_HWCAP), 0)


def read_identity(root: Path = Path("/")) -> Identity:
    """Return what the files below `root` say about the board; missing files say nothing."""
    entries = list(cpuinfo(read_text(root / "proc/cpuinfo") or ""))
    models = [*_tree(root, "model"), *_all(entries, "model"), *_all(entries, "hardware")]
    return Identity(
        compatible=_tree(root, "compatible"),
        # A plain 'model' line with a number belongs to an x86 processor, not to a board.
        models=tuple(m for m in models if not m.isdecimal()),
        parts=tuple(_parts(entries)),
        features=tuple(next(iter(_all(entries, "features")), "").split()),
        processors=len(_all(entries, "processor")),
    )


def _tree(root: Path, name: str) -> tuple[str, ...]:
    """Return the NUL-terminated strings of a property at the top of the device tree."""
    for folder in _TREES:
        text = read_text(root / folder / name)
        if text:
            return tuple(part.strip() for part in text.split("\0") if part.strip())
    return ()


def cpuinfo(text: str) -> Iterator[tuple[str, str]]:
    """Yield key in lower case and value of every line of a /proc/cpuinfo text."""
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            yield key.strip().lower(), value.strip()


def _all(entries: list[tuple[str, str]], key: str) -> list[str]:
    """Return the values of all lines with a key."""
    return [value for k, value in entries if k == key and value]


def _parts(entries: list[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """Yield implementer and part of every processor."""
    implementer = 0
    for key, value in entries:
        if key not in ("cpu implementer", "cpu part"):
            continue
        try:
            number = int(value, 16)
        except ValueError:
            continue
        if key == "cpu implementer":
            implementer = number
        else:
            yield implementer, number
