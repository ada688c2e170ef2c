"""Inputs that are indices of an embedding: whole numbers in the range of its rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtrain.data.columns import Column, blocks
from armtrain.errors import DataError
from armtrain.limits import MAX_INDICES

__all__ = ["scan_indices"]


def scan_indices(column: Column, limits: NDArray[np.int64]) -> None:
    """Read all inputs once and refuse those with an index that its table has no row for.

    Parameters
    ----------
    column : Column
    limits : ndarray, shape (elements of a sample,)
        Rows of the table whose index an element is, 0 where it is no index.

    Raises
    ------
    DataError
        With the first bad row, its element and value, the range, and how many rows are bad.
    """
    places = np.flatnonzero(limits)
    rows = limits[places]
    low, high = np.full(len(places), np.inf), np.full(len(places), -np.inf)
    bad, first, where = 0, "", 0
    for row, block in blocks(column):
        values = block.reshape(len(block), -1)[:, places].astype(np.float64)
        finite = np.isfinite(values)  # others are refused as such, elsewhere
        outside = finite & ((values < 0) | (values >= rows) | (values != np.floor(values)))
        low = np.minimum(low, np.min(values, axis=0, where=finite, initial=np.inf))
        high = np.maximum(high, np.max(values, axis=0, where=finite, initial=-np.inf))
        hit = outside.any(axis=1)
        if hit.any() and not bad:
            sample = int(hit.argmax())
            where = int(outside[sample].argmax())
            value, limit = float(values[sample, where]), int(rows[where])
            first = _first(row + sample, int(places[where]), value, limit)
        bad += int(hit.sum())
    if bad:
        alike = rows == rows[where]
        way = _way(float(low[alike].min()), float(high[alike].max()), int(rows[where]))
        raise DataError(f"{column.name}: {first}{way} ({bad} in all)")


def _first(row: int, element: int, value: float, limit: int) -> str:
    """Name the first index that is none."""
    return (
        f"row {row} (counted from 0) has {value:.9g} at element {element}, an index of an "
        f"embedding whose rows are 0..{limit - 1}"
    )


def _way(low: float, high: float, limit: int) -> str:
    """Suggest a repair."""
    if low == 1 and high == limit:
        return "; indices look 1-based: subtract 1, or plan with one more num_embeddings"
    if low < 0 or not limit <= high < MAX_INDICES:
        return "; indices are whole numbers from 0: repair or leave out such samples"
    return f"; map them to that range, or plan with num_embeddings={int(high) + 1}"
