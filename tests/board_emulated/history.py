"""The card at any moment, made from the record of its writes (Linux's dm-log-writes format).

A card without a cache holds at every moment what it has taken so far. A disk with a cache holds
everything up to the last flush; of what it took since then any part may be missing.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from scripts.board_image import ENVIRONMENT, FIRST_SECTOR, SECTOR_BYTES
from scripts.board_machine import fresh_card

MAGIC = 0x6A736677736872
SUPER = struct.Struct("<QQQI")  # magic, version, entries, bytes of a sector
ENTRY = struct.Struct("<QQQQ")  # sector, sectors, flags, bytes of text
FLUSH, FUA, DISCARD = 1, 2, 4
COMMIT = struct.pack(">II", 0xC03B3998, 2)  # how a commit block of ext4's journal begins


@dataclass(frozen=True)
class Write:
    """One request: where it goes, what it writes, and whether it flushes or passes the cache."""

    offset: int
    data: bytes
    flushes: bool
    durable: bool


def read_history(path: Path) -> list[Write]:
    """Return the writes of a history in order."""
    with open(path, "rb") as file:
        magic, _, count, sector_bytes = SUPER.unpack(file.read(SUPER.size))
        assert magic == MAGIC
        writes = []
        file.seek(sector_bytes)
        for _ in range(count):
            head = file.read(sector_bytes)
            sector, sectors, flags, _ = ENTRY.unpack(head[: ENTRY.size])
            assert not flags & DISCARD, "the system was not told to discard anything"
            data = file.read(sectors * sector_bytes)
            assert len(data) == sectors * sector_bytes
            offset = sector * sector_bytes
            writes.append(Write(offset, data, bool(flags & FLUSH), bool(flags & FUA)))
    return writes


def torn_commits(before: Path, writes: Sequence[Write]) -> list[int]:
    """Return the moments at which a commit block has its first sector and another's second.

    Linux 6.1 does not mount such a card until e2fsck has put it right.
    """
    found = []
    with open(before, "rb") as file:
        for taken, write in enumerate(writes, 1):
            if len(write.data) == SECTOR_BYTES and write.data.startswith(COMMIT):
                file.seek(write.offset + SECTOR_BYTES)
                if any(file.read(SECTOR_BYTES)):
                    found.append(taken)
    return found


def apply(image: Path, writes: Sequence[Write]) -> None:
    """Write to an image."""
    with open(image, "r+b") as file:
        for write in writes:
            os.pwrite(file.fileno(), write.data, write.offset)


@dataclass(frozen=True)
class Moment:
    """A power cut: the first `taken` writes had reached the card, the first `safe` for good."""

    taken: int
    safe: int
    image: Path


def cards_at(
    before: Path, writes: Sequence[Write], moments: Sequence[int], folder: Path, chance: Random
) -> Iterator[Moment]:
    """Yield the card as it is after a power cut at each of the moments (in ascending order).

    Parameters
    ----------
    before : Path
        The card when the history began.
    moments : sequence of int
        How many writes had been taken.
    chance : Random
        Decides which writes since the last flush are lost. Of one request in the cache a part
        may be lost as well: it is cut at a sector.
    """
    stable, done = fresh_card(before, folder / "stable.img"), 0
    flushed = any(w.flushes for w in writes)
    for taken in moments:
        flushes = [i for i in range(done, taken) if writes[i].flushes]
        # What is written before a flush is on the disk after it; without a cache, all is.
        safe = (flushes[-1] if flushes else done) if flushed else taken
        apply(stable, writes[done:safe])
        done = safe
        image = fresh_card(stable, folder / "cut.img")
        apply(image, [_kept(w, chance) for w in writes[safe:taken]])
        yield Moment(taken, safe, image)


def _kept(write: Write, chance: Random) -> Write:
    """Return the part of an unflushed write that survives: all, nothing, or its beginning."""
    sectors = len(write.data) // SECTOR_BYTES
    kept = sectors if write.durable else chance.choice((0, sectors, chance.randint(0, sectors)))
    return Write(write.offset, write.data[: kept * SECTOR_BYTES], write.flushes, write.durable)


def checkpoints(image: Path, directory: str, folder: Path) -> dict[int, bool]:
    """Return the checkpoints on a card by step, and whether each is intact.

    The file system is repaired first, as a board does when it starts: only its journal may be
    replayed, damage is an error.
    """
    folder.mkdir()
    part = folder / "part.img"
    skip = FIRST_SECTOR * SECTOR_BYTES
    _tool("dd", f"if={image}", f"of={part}", "bs=1M", f"skip={skip >> 20}", "conv=sparse")
    _tool("e2fsck", "-fp", str(part), allowed=(0, 1))
    _tool("debugfs", "-R", f"rdump {directory} {folder}", str(part))
    part.unlink()
    return {
        int(path.name[5:-5]): _is_intact(path.read_bytes(), int(path.name[5:-5]))
        for path in folder.rglob("step-*.ckpt")
        if re.fullmatch(r"step-\d{12,}\.ckpt", path.name)
    }


def _tool(*command: str, allowed: tuple[int, ...] = (0,)) -> None:
    """Run a tool of the file system; AssertionError with its complaint when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode in allowed, f"{command}: {done.stdout}{done.stderr}"


def _is_intact(data: bytes, step: int) -> bool:
    """Return whether a checkpoint file is whole: its size, its checksum, its step."""
    if len(data) < 168:
        return False
    size, checksum = struct.unpack_from("<QI", data, 16)
    (inside,) = struct.unpack_from("<Q", data, 72)
    return (size, checksum, inside) == (len(data), zlib.crc32(data[28:]), step)
