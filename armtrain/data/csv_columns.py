"""Columns of a table after reading: inputs filled and scaled, labels numbered.

Stored rows stay as they were read; the rules are applied to the rows of a batch when it is read,
so that they may depend on the whole table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.data.columns import FileColumn, Rows
from armtrain.errors import DataError

__all__ = ["LabelNumbers", "Moments", "Prepared", "Renumbered"]

_MAX_CLASSES = 65_536
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,18}(\.0*)?", re.ASCII)


class Moments:
    """Running mean and deviation of each input, missing ones (NaN) left out.

    Sums are taken row by row in double precision, less the first value, which makes them the same
    everywhere and keeps large means from swallowing small deviations.
    """

    def __init__(self, width: int) -> None:
        """Begin with no rows of `width` inputs."""
        self.count = np.zeros(width)
        self._shift = np.full(width, np.nan)
        self._sum = np.zeros(width)
        self._squares = np.zeros(width)

    def add(self, row: NDArray[np.float32]) -> None:
        """Take one row in, shape (width,)."""
        value = row.astype(np.float64)
        there = ~np.isnan(value)
        new = there & np.isnan(self._shift)
        self._shift[new] = value[new]
        off = np.where(there, value - self._shift, 0.0)
        self.count += there
        self._sum += off
        self._squares += off * off

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of each input; NaN where all are missing."""
        return self._shift + self._sum / np.maximum(self.count, 1)

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Standard deviation of each input (divided by the number of values)."""
        count = np.maximum(self.count, 1)
        mean = self._sum / count
        return np.sqrt(np.maximum(self._squares / count - mean * mean, 0.0))


class Prepared:
    """Inputs as float32: missing ones filled, then (value - offset) / scale."""

    def __init__(
        self,
        column: FileColumn,
        *,
        fill: NDArray[np.float32] | None,
        offset: NDArray[np.float32] | None,
        scale: NDArray[np.float32] | None,
    ) -> None:
        """Wrap a column of float32 rows; each rule has the rows' shape, or is None."""
        self.name = column.name
        self.count = column.count
        self.row_shape = column.row_shape
        self.dtype = column.dtype
        self._column = column
        self._fill = fill
        self._offset = offset
        self._scale = scale

    def read(self, rows: Rows, out: NDArray[Any]) -> None:
        """Write the prepared `rows` into `out`."""
        self._column.read(rows, out)
        if self._fill is not None:
            np.copyto(out, self._fill, where=np.isnan(out))
        if self._offset is not None:
            np.subtract(out, self._offset, out=out)
        if self._scale is not None:
            np.divide(out, self._scale, out=out)

    def close(self) -> None:
        """Close the column."""
        self._column.close()


class Renumbered:
    """Labels stored in the order in which they appeared, as the numbers of their classes."""

    def __init__(self, column: FileColumn, table: NDArray[np.int64]) -> None:
        """Wrap a column of places in `table`."""
        self.name = column.name
        self.count = column.count
        self.row_shape = column.row_shape
        self.dtype: np.dtype[Any] = np.dtype(np.int64)
        self._column = column
        self._table = table

    def read(self, rows: Rows, out: NDArray[Any]) -> None:
        """Write the class numbers of `rows` into `out`."""
        places = np.empty(out.shape, np.int32)
        self._column.read(rows, places)
        out[...] = self._table[places]

    def close(self) -> None:
        """Close the column."""
        self._column.close()


@dataclass
class LabelNumbers:
    """Numbers the labels of a table.

    Attributes
    ----------
    name : str
        The column, for messages.
    known : tuple of str
        Classes of the data that the weights were trained on; others are refused then.
    mode : str
        'names' makes whole numbers names, too, 'numbers' refuses names.
    """

    name: str
    known: tuple[str, ...] = ()
    mode: str = ""
    _places: dict[str, int] = field(default_factory=dict)

    def place(self, label: str) -> int:
        """Return the place of a label; raises ValueError for one that is unknown."""
        found = self._places.get(label)
        if found is None:
            if self.known and label not in self.known:
                raise ValueError(
                    f"'{label:.60}' is none of the {len(self.known)} classes that the weights know "
                    f"({', '.join(self.known[:8])}{', ...' if len(self.known) > 8 else ''})"
                )
            if self.mode == "numbers" and not _WHOLE.fullmatch(label):
                raise ValueError(f"'{label:.60}' is no whole number, as all labels should be")
            found = self._places[label] = len(self._places)
            if found == _MAX_CLASSES:
                raise DataError(
                    f"{self.name} has more than {_MAX_CLASSES} different labels; numbers to be "
                    "predicted are given with target=COLUMN"
                )
        return found

    def numbers(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return the class of each place, and the names of the classes.

        Labels that are whole numbers are the numbers of their classes and have no names; any
        other labels are numbered in the order of their texts (by code point).
        """
        labels = list(self._places)
        if not self.known and self.mode != "names" and all(map(_WHOLE.fullmatch, labels)):
            return np.array([int(label.split(".")[0]) for label in labels], np.int64), ()
        if not self.known and self.mode != "names" and all(map(_NUMBER.fullmatch, labels)):
            broken = next(label for label in labels if not _WHOLE.fullmatch(label))
            raise DataError(
                f"{self.name} holds numbers such as {broken}, no names or numbers of classes: "
                "predict them with target=COLUMN, or say labels=names"
            )
        names = self.known or tuple(sorted(labels, key=_order))
        index = {name: i for i, name in enumerate(names)}
        return np.array([index[label] for label in labels], np.int64), names


def _order(label: str) -> tuple[int, int, str]:
    """Sort numbers by value, before texts."""
    number = _WHOLE.fullmatch(label)
    return (0, int(label.split(".")[0]), label) if number else (1, 0, label)
