"""Compressed files: unpacked once into an anonymous temporary file, never into memory."""

from __future__ import annotations

import tempfile
import zlib
from gzip import BadGzipFile
from typing import BinaryIO, Protocol
from zipfile import BadZipFile

from armtrain.errors import DataError, StorageError

__all__ = ["Stream", "unpack", "write_all"]

_CHUNK = 1 << 18


class Stream(Protocol):
    """Anything with read(size) -> bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, none at the end."""


def unpack(name: str, stream: Stream, limit_bytes: int) -> tuple[BinaryIO, int]:
    """Copy `stream` into a temporary file without a name (in $TMPDIR).

    Parameters
    ----------
    name : str
        For messages.
    limit_bytes : int
        Copying stops after the first byte beyond this size, so that a small file cannot fill
        the disk.

    Returns
    -------
    file : BinaryIO
        Open for reading; its space is freed when it is closed.
    size_bytes : int
        Bytes copied, `limit_bytes` + 1 when there was more.

    Raises
    ------
    DataError
        The compressed data are damaged.
    StorageError
        The temporary directory is full.
    """
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - handed to the caller
    size = 0
    try:
        while size <= limit_bytes:
            chunk = stream.read(min(_CHUNK, limit_bytes + 1 - size))
            if not chunk:
                break
            size += write_all(file, chunk, name)
    except (EOFError, zlib.error, ValueError, BadGzipFile, BadZipFile) as error:
        file.close()
        raise DataError(f"{name} is a damaged compressed file ({error}); copy it again") from error
    except OSError as error:
        file.close()
        raise StorageError(f"cannot read {name}: {error.strerror}") from error
    except BaseException:
        file.close()
        raise
    return file, size


def write_all(file: BinaryIO, chunk: bytes | memoryview, name: str) -> int:
    """Write `chunk` into a temporary file and return its size; explain a full disk."""
    try:
        done = 0
        while done < len(chunk):
            done += file.write(chunk[done:])
    except OSError as error:
        raise StorageError(
            f"unpacking {name} into {tempfile.gettempdir()} failed: {error.strerror}; free some "
            "space there, set TMPDIR to another directory, or unpack the file yourself"
        ) from error
    return len(chunk)
