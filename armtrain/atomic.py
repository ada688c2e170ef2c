"""Crash-safe writing of whole files: the old content or the new one, never half of either.

A temporary file in the target's directory is written, synced to the medium and renamed over the
target; the directory is synced last, which makes the new name survive a power failure.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from armtrain.errors import StorageError

__all__ = ["atomic_writer", "write_bytes"]


@contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a binary file that becomes `path` when the block ends without an exception.

    Parameters
    ----------
    path : path-like
        Target; a symbolic link is followed. An existing target must be a regular file.

    Yields
    ------
    BinaryIO
        Seekable temporary file in the target's directory; removed when the block fails.

    Raises
    ------
    StorageError
        The directory is missing or not writable, the disk is full, or the target is no file.
    """
    target = Path(os.path.realpath(path))
    _refuse_special(target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    done = False
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        done = True
        _sync_directory(target.parent)
    except OSError as error:
        raise StorageError(_explain(target, error)) from error
    finally:
        if not done:
            with suppress(OSError):
                temporary.unlink()


def write_bytes(path: str | os.PathLike[str], data: bytes | bytearray | memoryview) -> None:
    """Replace the content of `path` by `data`, crash-safe; raises StorageError."""
    with atomic_writer(path) as file:
        file.write(data)


def _refuse_special(target: Path) -> None:
    """Refuse to rename over a directory or device."""
    try:
        mode = target.stat().st_mode
    except OSError:
        return  # missing, or an error that opening the temporary file reports better
    if not stat.S_ISREG(mode):
        raise StorageError(f"{target} exists and is not a regular file; choose another file name")


def _sync_directory(directory: Path) -> None:
    """Make a rename inside `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explain(target: Path, error: OSError) -> str:
    """Say what failed, how much room there is and that the old file is unharmed."""
    if not target.parent.is_dir():
        return f"cannot write {target}: the directory {target.parent} does not exist; create it"
    text = f"cannot write {target}: {error.strerror or error}"
    with suppress(OSError):
        room = os.statvfs(target.parent)
        text += f" ({room.f_bavail * room.f_frsize} B free in {target.parent})"
    kept = "; the file that was there is unchanged" if target.exists() else ""
    return f"{text}{kept}; free some space or choose another directory"
