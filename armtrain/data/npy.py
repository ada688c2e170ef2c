"""The npy header inside npz archives, and a writer of stored archives block by block."""

from __future__ import annotations

import io
import tokenize
import zipfile
from collections.abc import Iterable
from math import prod
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from armtrain.closing import Closing
from armtrain.errors import DataError

__all__ = ["NpzWriter", "parse_npy_header"]


_DATE = (1980, 1, 1, 0, 0, 0)
# What numpy's header parsers raise on damaged headers, old ones through tokenize.
_MALFORMED = (
    ValueError,
    SyntaxError,
    TypeError,
    RecursionError,
    MemoryError,
    tokenize.TokenError,
)


def parse_npy_header(name: str, header: bytes) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Return shape, element type and first data byte of an npy array.

    Parameters
    ----------
    name : str
        For messages.
    header : bytes
        The first bytes of the array, at least its whole header.

    Raises
    ------
    DataError
        No npy array, pickled objects, Fortran order, or no dimension.
    """
    stream = io.BytesIO(header)
    try:
        version = np.lib.format.read_magic(stream)
        readers = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
            # The same in UTF-8, which differs only in names of fields; those are refused below.
            (3, 0): np.lib.format.read_array_header_2_0,
        }
        if version not in readers:
            raise ValueError(f"format version {version[0]}.{version[1]}")
        shape, fortran_order, dtype = readers[version](stream)
    except _MALFORMED as error:
        reason = str(error).split("\n")[0][:200]
        raise DataError(f"{name} is no usable npy array ({reason}); save it again") from error
    if dtype.hasobject or dtype.names or dtype.kind not in "fiub":
        raise DataError(f"{name} has elements of type {dtype}; save it as float32 or integers")
    if not shape or any(n < 0 for n in shape):
        raise DataError(f"{name} has shape {shape}; an array of samples is needed")
    if fortran_order and len(shape) > 1:
        raise DataError(f"{name} is in Fortran order; save np.ascontiguousarray of it")
    return shape, dtype, stream.tell()


class NpzWriter(Closing):
    """Writes an uncompressed npz archive into an open file without holding arrays in memory.

    The same arrays give the same bytes: members carry a fixed date.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Write into `file`, which must be seekable and stays open."""
        self._archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)

    def close(self) -> None:
        """Write the archive's directory."""
        self._archive.close()

    def add_text(self, member: str, text: str) -> None:
        """Store a text in UTF-8 as a member that is no array."""
        self._archive.writestr(zipfile.ZipInfo(member, _DATE), text.encode())

    def add(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        blocks: Iterable[NDArray[Any]],
    ) -> None:
        """Store array `name`; `blocks` are its rows in order, C-contiguous, of `dtype`."""
        head = io.BytesIO()
        fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(head, fields)
        info = zipfile.ZipInfo(f"{name}.npy", _DATE)
        info.file_size = head.tell() + prod(shape) * dtype.itemsize
        with self._archive.open(info, "w") as member:
            member.write(head.getvalue())
            for block in blocks:
                member.write(block.reshape(-1).view(np.uint8).data)
