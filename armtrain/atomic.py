"""Crash-safe writing of whole files: the old content or the new one, never half of either.

A temporary file in the target's directory is written, synced to the medium and renamed over the
target; the directory is synced last, which makes the new name survive a power failure. A file
that is replaced hands on its mode, and its owner where that is allowed. A temporary file that a
killed process left is removed when the same target is written again: nobody holds its lock.
The C engine (`kernels/engine/file_io.c`) names, locks and removes its own alike.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from armtrain.errors import StorageError
from armtrain.files import explain, path_text, takes_files

__all__ = ["atomic_writer", "check_target", "write_bytes"]

_NAME_CHARACTERS = 50
"""Of the target's name in the temporary one: four bytes each stay below every limit."""


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
    ArgumentError
        It is no path, or holds a NUL character.
    """
    target = _resolve(path)
    replaced = _existing(target)
    start = target.name[:_NAME_CHARACTERS]
    _sweep(target.parent, start)
    temporary = target.with_name(f".{start}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    done = False
    try:
        with _create(temporary, replaced) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, target)  # under the lock: a sweeper must not come first
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


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse now what `atomic_writer` would refuse at the end of a long run.

    Nothing is left behind. Raises StorageError, or ValueError for a NUL character.
    """
    target = _resolve(path)
    _existing(target)
    try:
        takes_files(target.parent)
    except OSError as error:
        raise StorageError(_explain(target, error)) from error


def _resolve(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path means, symbolic links followed."""
    text = path_text(path)
    if not text or text.endswith(os.sep):
        raise StorageError(f"'{text}' is no file name but a directory's; choose a file name")
    try:
        return Path(os.path.realpath(text))
    except OSError as error:  # there is no current directory
        raise StorageError(f"cannot write {text}: {explain(error)}") from error


def _existing(target: Path) -> os.stat_result | None:
    """Return what is known of a file that will be replaced; refuse a directory or device."""
    try:
        found = target.stat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # the temporary file's name is a shorter one
            raise StorageError(f"cannot write {target}: {explain(error)}") from error
        return None  # missing, or an error that opening the temporary file reports better
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(f"{target} exists and is not a regular file; choose another file name")
    return found


def _create(temporary: Path, replaced: os.stat_result | None) -> BinaryIO:
    """Create a temporary file that may be read by nobody who may not read what it replaces."""
    mode = 0o666 if replaced is None else stat.S_IMODE(replaced.st_mode) & 0o777
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = open(os.open(temporary, flags, mode), "wb")  # noqa: SIM115 - the caller closes it
    with suppress(OSError):  # nobody sweeps where there are no locks
        fcntl.flock(file, fcntl.LOCK_EX)
    if replaced is not None:
        _take_over_mode(file.fileno(), replaced, mode)
    return file


def _sweep(directory: Path, start: str) -> None:
    """Remove temporary files of a target that no living process holds; best effort."""
    pattern = re.compile(rf"\.{re.escape(start)}\.\d+-[0-9a-f]{{8}}\.tmp", re.DOTALL)
    with suppress(OSError):
        for name in os.listdir(directory):
            if pattern.fullmatch(name):
                _remove_orphan(directory / name)


def _remove_orphan(path: Path) -> None:
    """Remove a file whose lock can be had: its writer is gone."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError):
        descriptor = os.open(path, flags)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(descriptor)


def _take_over_mode(descriptor: int, replaced: os.stat_result, mode: int) -> None:
    """Give a new file the mode of the old one; another group never gets the old group's rights."""
    made = os.fstat(descriptor)
    if made.st_uid != replaced.st_uid:
        with suppress(OSError):
            os.fchown(descriptor, replaced.st_uid, replaced.st_gid)
    if os.fstat(descriptor).st_gid != replaced.st_gid:
        try:
            os.fchown(descriptor, -1, replaced.st_gid)
        except OSError:
            mode &= ~0o070
    with suppress(OSError):  # a file system without modes keeps its own
        os.fchmod(descriptor, mode)


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
    said, advice = explain(error).split("; ", 1)
    with suppress(OSError):
        room = os.statvfs(target.parent)
        said += f" ({room.f_bavail * room.f_frsize} B free in {target.parent})"
    kept = "; the file that was there is unchanged" if target.exists() else ""
    return f"cannot write {target}: {said}{kept}; {advice}"
