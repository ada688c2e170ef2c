"""Columns of samples: rows of one shape and type, in memory or in a file.

A file column reads the rows of one batch with positioned reads. It is not mapped: mapped pages
would count as memory of the process, and a file that shrinks meanwhile would end it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import prod
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from armtrain.errors import DataError, StorageError

__all__ = ["ArrayColumn", "Column", "FileColumn", "Rows", "blocks"]

Rows = NDArray[np.uint64]
"""Sample numbers, shape (n,)."""


class Column(Protocol):
    """`count` rows of `row_shape` elements of `dtype`; `name` is for messages."""

    name: str
    count: int
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, rows: Rows, out: NDArray[Any]) -> None:
        """Copy `rows` into `out`, shape (len(rows), *row_shape), of `dtype`, C-contiguous."""

    def close(self) -> None:
        """Release files."""


_BLOCK_BYTES = 1 << 20


def blocks(column: Column) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield all rows in order, about a mebibyte at a time: the first one's number, and the rows."""
    row_bytes = column.dtype.itemsize * prod(column.row_shape)
    size = max(1, _BLOCK_BYTES // max(1, row_bytes))
    for first in range(0, column.count, size):
        rows = np.arange(first, min(first + size, column.count), dtype=np.uint64)
        raw = np.empty((len(rows), *column.row_shape), column.dtype)
        column.read(rows, raw)
        yield first, raw


class ArrayColumn:
    """Rows of an array in memory, or mapped by the user."""

    def __init__(self, name: str, array: NDArray[Any]) -> None:
        """Keep a reference to `array`, shape (count, ...); nothing is copied."""
        if array.ndim == 0:
            raise DataError(f"{name} is a single number; an array of samples is needed")
        self.name = name
        self.count = array.shape[0]
        self.row_shape = array.shape[1:]
        self.dtype = array.dtype
        self._array = array

    def read(self, rows: Rows, out: NDArray[Any]) -> None:
        """Copy `rows` into `out`."""
        out[...] = self._array[rows.astype(np.intp)]

    def close(self) -> None:
        """Do nothing: the array is the user's."""


def read_at(name: str, file: BinaryIO, part: memoryview, offset: int) -> None:
    """Fill `part` from byte `offset` of a file.

    Raises
    ------
    StorageError
        Reading failed, or the file ends too early.
    """
    done = 0
    while done < len(part):
        try:
            n = os.preadv(file.fileno(), [part[done:]], offset + done)
        except OSError as error:
            raise StorageError(f"cannot read {name}: {error.strerror}") from error
        if n == 0:
            raise StorageError(
                f"{name} became shorter while it was read: no data at byte {offset + done}"
            )
        done += n


class FileColumn:
    """Rows stored one after the other in a file, from byte `offset` on."""

    def __init__(
        self,
        name: str,
        file: BinaryIO,
        offset: int,
        count: int,
        row_shape: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        """Take over `file`, whose size the caller has checked against count and shape."""
        self.name = name
        self.count = count
        self.row_shape = row_shape
        self.dtype = dtype
        self._file = file
        self._offset = offset
        self._row_bytes = prod(row_shape) * dtype.itemsize

    def read(self, rows: Rows, out: NDArray[Any]) -> None:
        """Copy `rows` into `out`; neighbouring rows are read at once."""
        if not len(rows) or not self._row_bytes:
            return
        target = out.reshape(-1).view(np.uint8).data
        starts = [0, *(np.flatnonzero(np.diff(rows.astype(np.int64)) != 1) + 1).tolist()]
        for first, last in zip(starts, [*starts[1:], len(rows)], strict=True):
            part = target[first * self._row_bytes : last * self._row_bytes]
            read_at(self.name, self._file, part, self._offset + int(rows[first]) * self._row_bytes)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
