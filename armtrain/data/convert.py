"""Element types: what may enter the network, and how it is converted.

Inputs: uint8 is divided by 255 in float32, floats are rounded to float32, everything else is
refused, since nobody can know its scale; indices of an embedding may be integers of any width
(`indices.py`). Labels: integers of any width. Regression targets:
floats.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.data.columns import Column
from armtrain.errors import DataError
from armtrain.limits import MAX_LABEL, MIN_LABEL

__all__ = ["check_float_dtype", "check_label_dtype", "read_float32", "scan_labels"]

_SCALE = np.float32(255)
_CHUNK = 8192
_MAX_DISTINCT = 256


def check_float_dtype(column: Column, *, bytes_allowed: bool) -> None:
    """Refuse element types without a conversion rule to float32; raises DataError."""
    kind = column.dtype.kind
    if kind == "f" or (bytes_allowed and column.dtype == np.uint8):
        return
    if kind in "iub" and bytes_allowed:
        hint = (
            "only uint8 has a fixed scale (divided by 255); scale the values yourself, "
            "for example x.astype('float32') / x.max()"
        )
    elif kind in "iub":
        hint = "convert the targets yourself: y.astype('float32')"
    else:
        hint = "give an array of numbers, float32 or uint8"
    raise DataError(f"{column.name} has elements of type {column.dtype}: {hint}")


def check_label_dtype(column: Column) -> None:
    """Refuse labels that are no integers, one a sample; raises DataError."""
    shape = column.row_shape
    if column.dtype.kind not in "iub":
        hint = "convert whole numbers with y.astype('int32')"
        if len(shape) == 1 and shape[0] > 1:
            hint = (
                "for one-hot rows use y.argmax(axis=1), for probabilities plan with "
                "nn.CrossEntropyLoss(probabilities=True)"
            )
        raise DataError(
            f"{column.name} has labels of type {column.dtype}, integers are needed: {hint}"
        )
    if shape not in ((), (1,)):
        raise DataError(
            f"{column.name} has shape (n, {', '.join(map(str, shape))}), one label a sample is "
            "needed: shape (n,); for one-hot rows use y.argmax(axis=1)"
        )


def read_float32(
    column: Column,
    rows: NDArray[np.uint64],
    out: NDArray[np.float32],
    raw: NDArray[Any] | None,
    *,
    scaled: bool = True,
) -> None:
    """Read rows as float32 into `out`, shape (n, ...).

    Parameters
    ----------
    raw : ndarray or None
        Scratch of the column's own type, shape (at least n, *row_shape); None when the column
        already holds native float32.
    scaled : bool
        Whether uint8 is divided by 255; indices are not.
    """
    if raw is None:
        column.read(rows, out.reshape(len(rows), *column.row_shape))
        return
    part = raw[: len(rows)]
    column.read(rows, part)
    part = part.reshape(out.shape)
    if column.dtype == np.uint8 and scaled:
        np.divide(part, _SCALE, out=out, dtype=np.float32)
    else:
        with np.errstate(over="ignore"):  # an overflow becomes inf, which the engine reports
            out[...] = part


def scan_labels(column: Column, n_classes: int, ignored: int) -> None:
    """Read every label once and refuse the file when one is outside 0..n_classes-1.

    Parameters
    ----------
    ignored : int
        A label that is taken as well, and looked at no further.

    Raises
    ------
    DataError
        With the smallest and largest label, the first bad row and, where the values suggest
        one, the way to repair them.
    """
    low, high, bad_row = inf, -inf, -1
    distinct: set[int] = set()
    strays: set[int] = set()
    for first in range(0, column.count, _CHUNK):
        n = min(_CHUNK, column.count - first)
        labels = np.empty((n, *column.row_shape), column.dtype)
        column.read(np.arange(first, first + n, dtype=np.uint64), labels)
        labels = labels.reshape(n)
        counted = labels != ignored
        if not counted.any():
            continue
        values = labels[counted]
        smallest, largest = int(values.min()), int(values.max())
        low, high = min(low, smallest), max(high, largest)
        if len(distinct) <= _MAX_DISTINCT:
            distinct.update(np.unique(values).tolist())
        if smallest < 0 or largest >= n_classes:
            outside = counted & ((labels < 0) | (labels >= n_classes))
            bad_row = first + int(np.argmax(outside)) if bad_row < 0 else bad_row
            strays.update(np.unique(labels[outside])[:2].tolist())
    if bad_row >= 0:
        raise DataError(
            f"{column.name}: labels must lie in 0..{n_classes - 1}, these lie in {low}..{high}; "
            f"the first bad one is in row {bad_row} (counted from 0); "
            + _hint(distinct, strays, n_classes)
        )


def _hint(distinct: set[int], strays: set[int], n_classes: int) -> str:
    """Suggest a repair of labels outside their range, some of which are `strays`."""
    values = sorted(map(int, distinct))
    if values[0] == 1 and values[-1] == n_classes:
        return "labels look 1-based: subtract 1"
    stray = int(min(strays))
    ignore = f"ignore_index={stray} of the loss leaves such samples out"
    one = len(strays) == 1 and MIN_LABEL <= stray <= MAX_LABEL
    if stray < 0:
        several = (
            "drop the samples with negative labels, or make all of them -1: ignore_index=-1 of the "
            "loss leaves such samples out"
        )
        return ignore if one else several
    if len(values) <= n_classes:
        listed = ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")
        hint = (
            f"the values {listed} are {len(values)} classes: map them to 0..{len(values) - 1}, "
            f"for example {values[-1]} to {len(values) - 1}"
        )
    else:
        hint = f"the data have {len(values)} different labels: plan a model with as many outputs"
    return f"{hint}; {ignore}" if one else hint
