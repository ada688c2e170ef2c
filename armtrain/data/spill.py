"""Rows that become known one after the other, kept in a temporary file and read in any order."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.closing import Closing
from armtrain.data.columns import FileColumn
from armtrain.data.unpack import write_all

__all__ = ["Spill"]

_BLOCK_BYTES = 1 << 18


class Spill(Closing):
    """Collects rows of one shape and type in an unnamed file (in $TMPDIR).

    A few rows at a time are in memory. The file's space is freed when the column, or the spill
    that never became one, is closed.
    """

    def __init__(self, name: str, row_shape: tuple[int, ...], dtype: Any) -> None:
        """Collect for a column called `name`."""
        self.name = name
        self.count = 0
        self._dtype = np.dtype(dtype)
        self._row_shape = row_shape
        row_bytes = self._dtype.itemsize * int(np.prod(row_shape))
        self._block = np.empty((max(1, _BLOCK_BYTES // max(1, row_bytes)), *row_shape), self._dtype)
        self._used = 0
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by `close`
        self._taken = False

    def append(self, row: Any) -> None:
        """Add one row."""
        self._block[self._used] = row
        self._used += 1
        self.count += 1
        if self._used == len(self._block):
            self._flush()

    def column(self) -> FileColumn:
        """Return all rows as a column, which owns the file from now on."""
        self._flush()
        self._taken = True
        return FileColumn(self.name, self._file, 0, self.count, self._row_shape, self._dtype)

    def _flush(self) -> None:
        """Write what is in memory."""
        rows: NDArray[Any] = self._block[: self._used]
        if rows.nbytes:
            write_all(self._file, rows.reshape(-1).view(np.uint8).data, self.name)
        self._used = 0

    def close(self) -> None:
        """Free the file unless a column has it."""
        if not self._taken:
            self._file.close()
