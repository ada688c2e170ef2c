"""An arena of doubles that still notices when buffers of any element type overlap.

There is one double, a cell, for every *byte* of the planned arena. An element covers the cells
of its bytes: writing fills all of them with the value, reading gives the value only if all of
them still agree, and NaN otherwise. So a byte buffer laid over a float buffer spoils it just as
it would in memory, although no value is ever rounded to its real type.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "CellArena"]

Array = NDArray[np.float64]


class CellArena:
    """`size_bytes` cells, all NaN at first."""

    def __init__(self, size_bytes: int) -> None:
        self.cells: Array = np.full(size_bytes, np.nan)

    def _elements(self, offset: int, count: int, itemsize: int) -> Array:
        """Return the cells of `count` elements as a view of shape (count, itemsize)."""
        end = offset + count * itemsize
        if offset < 0 or end > self.cells.size:
            raise IndexError(f"bytes {offset}..{end} of an arena of {self.cells.size}")
        return self.cells[offset:end].reshape(count, itemsize)

    def read(self, offset: int, dims: tuple[int, ...], itemsize: int) -> Array:
        """Return a copy of the array at byte `offset`, NaN where another buffer intruded."""
        cells = self._elements(offset, prod(dims), itemsize)
        first = cells[:, 0]
        whole = np.all(cells == first[:, None], axis=1)
        return np.where(whole, first, np.nan).reshape(dims)

    def write(self, offset: int, itemsize: int, values: Array) -> None:
        """Store an array at byte `offset`."""
        self._elements(offset, values.size, itemsize)[:] = values.reshape(-1, 1)

    def spoil(self, offset: int, size_bytes: int) -> None:
        """Fill `size_bytes` bytes at `offset` with NaN."""
        self._elements(offset, size_bytes, 1)[:] = np.nan
