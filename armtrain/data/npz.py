"""npz archives with an array `x` and, for training, an array `y`.

Members that are stored without compression are read in place, row by row; compressed ones are
unpacked once into a temporary file. Pickled objects are never loaded. The archive's checksums
are verified when it is opened, which reads each member once from its beginning to its end.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from math import prod
from typing import BinaryIO

from armtrain.data.about import About
from armtrain.data.columns import Column, FileColumn, read_at
from armtrain.data.npy import parse_npy_header
from armtrain.data.unpack import unpack
from armtrain.errors import DataError, StorageError
from armtrain.files import explain, open_regular

__all__ = ["ABOUT_MEMBER", "MAX_ABOUT_BYTES", "open_npz", "read_about"]

ABOUT_MEMBER = "about.json"
"""Member with the metadata that weights get; armtrain-run knows it, too."""
MAX_ABOUT_BYTES = 1 << 20
"""RUN_ABOUT_MAX of armtrain-run."""

# What zipfile raises for damaged archives, encrypted members among them.
_UNUSABLE = (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, zlib.error)
_HEADER_BYTES = 1 << 16
_CHUNK = 1 << 18


def open_npz(path: str, notes: list[str]) -> tuple[Column, Column | None]:
    """Open the columns `x` and `y` (None when there is no `y`) of an npz file.

    Raises
    ------
    DataError
        No npz file, no member `x.npy`, or an array that cannot be streamed.
    StorageError
        The file cannot be read.
    """
    try:
        with open_regular(path, buffered=True) as file, zipfile.ZipFile(file) as archive:
            members = {info.filename: info for info in archive.infolist()}
            if "x.npy" not in members:
                names = ", ".join(sorted(n.removesuffix(".npy") for n in members)) or "nothing"
                raise DataError(
                    f"{path} holds {names}; arrays named x and y are needed: "
                    "np.savez(file, x=images, y=labels)"
                )
            x = _member(path, archive, members["x.npy"], notes)
            try:
                y = _member(path, archive, members["y.npy"], notes) if "y.npy" in members else None
            except BaseException:
                x.close()
                raise
            return x, y
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise DataError(f"{path} is no usable npz file ({error}); save it again") from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {explain(error)}") from error


def read_about(path: str) -> About | None:
    """Return what `armtrain convert-data` kept of class names and preparation, None without any.

    Raises
    ------
    DataError
        The archive, or what it keeps, is damaged.
    StorageError
        The file cannot be read.
    """
    name = f"{path}:about"
    try:
        with open_regular(path, buffered=True) as file, zipfile.ZipFile(file) as archive:
            if ABOUT_MEMBER not in archive.namelist():
                return None
            size = archive.getinfo(ABOUT_MEMBER).file_size
            if not 0 < size <= MAX_ABOUT_BYTES:
                raise DataError(
                    f"{name} has {size} B, 1 to {MAX_ABOUT_BYTES} are possible; convert the data "
                    "again"
                )
            with archive.open(ABOUT_MEMBER) as member:
                return About.parse(name, member.read(MAX_ABOUT_BYTES))
    except _UNUSABLE as error:
        raise DataError(f"{name} is damaged ({error}); convert the data again") from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {explain(error)}") from error


def _member(
    path: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo, notes: list[str]
) -> FileColumn:
    """Open one member as a column."""
    name = f"{path}:{info.filename.removesuffix('.npy')}"
    if info.flag_bits & 1:
        raise DataError(f"{name} is encrypted; save it without a password")
    if info.compress_type == zipfile.ZIP_STORED:
        file, offset = _stored(path, name, info)
        size, crc = info.file_size, info.CRC
    else:
        crc = None  # unpacking has compared it
        with archive.open(info) as stream:
            file, size = unpack(name, stream, info.file_size)
        offset = 0
        notes.append(
            f"{name} is compressed: unpacked into a temporary file of {size} B; "
            "`armtrain convert-data` makes a file that needs no unpacking"
        )
    try:
        column = _column(name, file, offset, size)
        if crc is not None:
            _check_crc(name, file, offset, size, crc)
        return column
    except BaseException:
        file.close()
        raise


def _stored(path: str, name: str, info: zipfile.ZipInfo) -> tuple[BinaryIO, int]:
    """Open the archive again and return where the stored member's bytes begin."""
    file = open_regular(path)
    local = os.pread(file.fileno(), 30, info.header_offset)
    start = info.header_offset + 30
    start += int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    total = os.fstat(file.fileno()).st_size
    whole = local[:4] == b"PK\x03\x04" and start + info.file_size <= total
    if not whole or info.compress_size != info.file_size:
        file.close()
        raise DataError(
            f"{name} should have {info.file_size} B from byte {start} on, the file has {total} B; "
            "the archive is damaged: save it again"
        )
    return file, start


def _check_crc(name: str, file: BinaryIO, offset: int, size: int, want: int) -> None:
    """Read a stored member once and compare its checksum; raises DataError or StorageError."""
    crc, chunk = 0, memoryview(bytearray(min(_CHUNK, size)))
    for done in range(0, size, _CHUNK):
        part = chunk[: size - done]
        read_at(name, file, part, offset + done)
        crc = zlib.crc32(part, crc)
    if crc != want:
        raise DataError(
            f"{name} is damaged: its bytes have the CRC-32 {crc:08x}, the archive says "
            f"{want:08x}; copy the file again or save it again"
        )


def _column(name: str, file: BinaryIO, offset: int, size: int) -> FileColumn:
    """Read the array's header and check its size."""
    header = os.pread(file.fileno(), min(size, _HEADER_BYTES), offset)
    shape, dtype, begin = parse_npy_header(name, header)
    need = prod(shape) * dtype.itemsize
    if size - begin != need:
        raise DataError(
            f"{name} of shape {shape} needs {need} B, the file holds {size - begin} B; "
            "save it again"
        )
    return FileColumn(name, file, offset + begin, shape[0], shape[1:], dtype)
