"""What the training loop reads from: samples by number, converted and checked.

A `Source` knows how many samples there are and writes any of them as float32 inputs and int32
labels or float32 targets into buffers that the caller owns.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from armtrain.closing import Closing
from armtrain.data.columns import Column, FileColumn, Rows
from armtrain.data.convert import check_float_dtype, check_label_dtype, read_float32, scan_labels
from armtrain.errors import DataError, ShapeError

__all__ = ["Expected", "Source", "TableSource", "fits"]


@dataclass(frozen=True)
class Expected:
    """What a plan wants of one sample.

    Attributes
    ----------
    input_shape : tuple of int
        The user's shape, for images (C, H, W).
    n_classes : int
        Classes of a label target; 0 when targets are float32 arrays of `target_shape`.
    target_shape : tuple of int
        Shape of one float target; () for labels.
    """

    input_shape: tuple[int, ...]
    n_classes: int
    target_shape: tuple[int, ...] = ()

    @property
    def target_dtype(self) -> type[np.int32] | type[np.float32]:
        """Element type of target buffers."""
        return np.int32 if self.n_classes else np.float32


class Source(Protocol):
    """`count` samples, opened for one plan; a context manager."""

    name: str
    count: int
    notes: tuple[str, ...]

    def check(self, expected: Expected, *, targets: bool) -> None:
        """Refuse data that do not suit the plan, reading every label once."""

    def read(self, rows: Rows, x: NDArray[np.float32], target: NDArray[Any] | None) -> None:
        """Write samples `rows` into x, shape (n, *input_shape), and target, shape (n, ...)."""

    def close(self) -> None:
        """Release files."""

    def __enter__(self) -> Source:
        """Return itself."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release files."""


def fits(have: tuple[int, ...], want: tuple[int, ...]) -> bool:
    """Tell whether a sample of shape `have` is the wanted one up to ones or flattening."""
    if prod(have) != prod(want):
        return False
    squeezed = [tuple(n for n in shape if n != 1) for shape in (have, want)]
    return squeezed[0] == squeezed[1] or min(map(len, squeezed)) <= 1


def _shape_hint(have: tuple[int, ...], want: tuple[int, ...]) -> str:
    """Suggest how samples of another shape become the wanted ones."""
    if len(have) == 3 == len(want) and (have[2], *have[:2]) == want:
        return "images look channels-last: use x.transpose(0, 3, 1, 2)"
    if not have:
        return f"reshape the data to (n, {', '.join(map(str, want))})"
    option = "x".join(map(str, have))
    return f"reshape the data, or plan with input_shape={have} (--input-shape {option})"


def _scratch_bytes(column: Column, n: int) -> int:
    """Return the bytes for n rows in the column's type, and of the copy that arrays make first."""
    converted = column.dtype != np.dtype(np.float32)
    copied = not isinstance(column, FileColumn)
    return (converted + copied) * n * prod(column.row_shape) * column.dtype.itemsize


class TableSource(Closing):
    """Samples from two columns, inputs and targets; `y` may be missing for predictions."""

    def __init__(self, name: str, x: Column, y: Column | None, notes: tuple[str, ...] = ()) -> None:
        """Take over the columns and check that they have equally many rows."""
        self.name = name
        self.notes = notes
        self.x = x
        self.y = y
        self.count = x.count
        self._labels = False
        self._raw: dict[str, NDArray[Any]] = {}
        try:
            self._check_counts()
        except DataError:
            self.close()
            raise

    def _check_counts(self) -> None:
        """Refuse empty columns and columns of different lengths."""
        if not self.count:
            raise DataError(f"{self.name} holds no samples")
        if self.y is not None and self.y.count != self.count:
            raise DataError(
                f"{self.x.name} has {self.count} samples, {self.y.name} has {self.y.count} "
                "targets; they must belong together one to one"
            )

    def check(self, expected: Expected, *, targets: bool) -> None:
        """Refuse wrong shapes, element types and labels; raises DataError or ShapeError."""
        self._check_shape(self.x, expected.input_shape, "input")
        check_float_dtype(self.x, bytes_allowed=True)
        if not targets:
            return
        if self.y is None:
            raise DataError(f"{self.name} has no targets (y), only inputs: give both, as (x, y)")
        self._labels = bool(expected.n_classes)
        if self._labels:
            check_label_dtype(self.y)
            scan_labels(self.y, expected.n_classes)
        else:
            self._check_shape(self.y, expected.target_shape, "target")
            check_float_dtype(self.y, bytes_allowed=False)

    def _check_shape(self, column: Column, want: tuple[int, ...], what: str) -> None:
        """Refuse samples of another shape than planned."""
        if not fits(column.row_shape, want):
            raise ShapeError(
                f"{column.name}: one {what} has shape {column.row_shape}, the plan wants {want}; "
                + _shape_hint(column.row_shape, want)
            )

    def read(self, rows: Rows, x: NDArray[np.float32], target: NDArray[Any] | None) -> None:
        """Write samples into the caller's buffers."""
        read_float32(self.x, rows, x, self._scratch("x", self.x, len(rows)))
        if target is None or self.y is None:
            return
        if self._labels:
            raw = np.empty((len(rows), *self.y.row_shape), self.y.dtype)
            self.y.read(rows, raw)
            target[...] = raw.reshape(target.shape)
        else:
            read_float32(self.y, rows, target, self._scratch("y", self.y, len(rows)))

    def scratch_bytes(self, n: int) -> int:
        """Return the bytes that reading n samples takes beside the caller's buffers."""
        columns = [self.x] if self.y is None else [self.x, self.y]
        return sum(_scratch_bytes(column, n) for column in columns)

    def touch(self, n: int) -> None:
        """Make the kept buffers for reading n samples, all their pages in memory."""
        for key, column in (("x", self.x), ("y", self.y)):
            kept = None if column is None else self._scratch(key, column, n)
            if kept is not None:
                kept.fill(0)

    def _scratch(self, key: str, column: Column, n: int) -> NDArray[Any] | None:
        """Return a kept buffer of the column's own type, None where float32 needs none."""
        if column.dtype == np.dtype(np.float32):
            return None
        if key not in self._raw or len(self._raw[key]) < n:
            self._raw[key] = np.empty((n, *column.row_shape), column.dtype)
        return self._raw[key]

    def close(self) -> None:
        """Close the columns."""
        self.x.close()
        if self.y is not None:
            self.y.close()
