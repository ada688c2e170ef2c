"""IDX files (the format of MNIST and its relatives), plain or gzip-compressed.

Header: two zero bytes, element type, number of dimensions, then big-endian uint32 dimensions.
Compression is recognised by content, since these files are often renamed.
"""

from __future__ import annotations

import gzip
import os
from math import prod
from typing import BinaryIO

import numpy as np

from armtrain.data.columns import FileColumn
from armtrain.data.unpack import unpack
from armtrain.errors import DataError
from armtrain.files import open_regular

__all__ = ["open_idx"]

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"
_MAX_DIMS = 6


def open_idx(path: str | os.PathLike[str], notes: list[str]) -> FileColumn:
    """Open an IDX file as a column, its sizes checked against its length.

    Parameters
    ----------
    notes : list of str
        A line is added when the file had to be unpacked.

    Raises
    ------
    DataError
        No IDX file, or its length differs from what the header says (both are named).
    StorageError
        The file cannot be read.
    """
    name = os.fspath(path)
    file = open_regular(path)
    try:
        size = os.fstat(file.fileno()).st_size
        if os.pread(file.fileno(), 2, 0) == _GZIP:
            packed = file
            with packed:
                file, size = _gunzip(name, packed)
            notes.append(
                f"{name} is compressed: unpacked into a temporary file of {size} B; "
                "`armtrain convert-data` makes a file that needs no unpacking"
            )
        return _column(name, file, size)
    except BaseException:
        file.close()
        raise


def _gunzip(name: str, packed: BinaryIO) -> tuple[BinaryIO, int]:
    """Unpack, stopping one byte after the size that the IDX header promises."""
    with gzip.GzipFile(fileobj=packed) as stream:
        head, head_size = unpack(name, stream, 4 + 4 * _MAX_DIMS - 1)
    with head:
        header = os.pread(head.fileno(), head_size, 0)
    _, shape, offset, itemsize = _parse(name, header)
    packed.seek(0)
    with gzip.GzipFile(fileobj=packed) as stream:
        return unpack(name, stream, offset + prod(shape) * itemsize)


def _parse(name: str, header: bytes) -> tuple[str, tuple[int, ...], int, int]:
    """Return element type, shape, offset of the data and bytes of an element."""
    if len(header) < 4 or header[:2] != b"\0\0" or header[2] not in _TYPES:
        raise DataError(
            f"{name} is no IDX file: it starts with {header[:4].hex(' ') or 'nothing'}, "
            "expected 00 00, an element type (08 to 0e) and the number of dimensions"
        )
    ndim = header[3]
    offset = 4 + 4 * ndim
    if not 1 <= ndim <= _MAX_DIMS or len(header) < offset:
        raise DataError(
            f"{name} is a damaged IDX file: {ndim} dimensions (1 to {_MAX_DIMS} are possible) in "
            f"{len(header)} B of header; copy it again"
        )
    shape = tuple(np.frombuffer(header, ">u4", ndim, 4).tolist())
    code = _TYPES[header[2]]
    return code, shape, offset, np.dtype(code).itemsize


def _column(name: str, file: BinaryIO, size: int) -> FileColumn:
    """Check the length of an unpacked IDX file and return its column."""
    header = os.pread(file.fileno(), 4 + 4 * _MAX_DIMS, 0)
    code, shape, offset, itemsize = _parse(name, header)
    expected = offset + prod(shape) * itemsize
    if size != expected:
        dims = "x".join(map(str, shape))
        body = max(size - offset, 0)
        raise DataError(
            f"{name}: the header says {dims} ({shape[0]} entries, expected {expected} B), got "
            f"{size} B ({body // max(prod(shape[1:]) * itemsize, 1)} entries); copy the file again"
        )
    return FileColumn(name, file, offset, shape[0], shape[1:], np.dtype(code))
