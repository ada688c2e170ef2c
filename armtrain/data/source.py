"""What the training loop reads from: samples by number, converted and checked.

A `Source` knows how many samples there are and writes any of them as float32 inputs and int32
labels or float32 targets into buffers that the caller owns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from armtrain.closing import Closing
from armtrain.data.about import About
from armtrain.data.columns import Column, FileColumn, Rows
from armtrain.data.convert import check_float_dtype, check_label_dtype, read_float32, scan_labels
from armtrain.data.indices import scan_indices
from armtrain.data.target_range import TargetRange
from armtrain.errors import DataError, ShapeError
from armtrain.limits import NO_LABEL

__all__ = ["Expected", "Origin", "Source", "TableSource", "fits"]


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
    index_limits : tuple of int
        Per element of an input, in order, how many indices it may be, 0: it is a number like any
        other; () for no indices at all.
    targets : TargetRange, optional
        Which float targets the loss takes, None for all that are finite.
    ignored_label : int
        Label of samples that do not count, which need not be a class.
    """

    input_shape: tuple[int, ...]
    n_classes: int
    target_shape: tuple[int, ...] = ()
    index_limits: tuple[int, ...] = ()
    targets: TargetRange | None = None
    ignored_label: int = NO_LABEL

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
        """Refuse data unlike `expected`; with `targets` every label is read once."""

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


def _shape_hint(have: tuple[int, ...], want: tuple[int, ...], what: str) -> str:
    """Suggest how samples of another shape become the wanted ones."""
    if what == "target":
        if not have and len(want) == 1:
            return (
                f"for labels plan with nn.CrossEntropyLoss(), or give {want[0]} numbers a sample, "
                f"np.eye({want[0]}, dtype='float32')[y] for one-hot rows of labels"
            )
        return "reshape the targets, or plan a model whose output has their shape"
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


@dataclass(frozen=True)
class Origin:
    """Where samples with a file each come from: what a manifest records.

    Attributes
    ----------
    paths : tuple of str
    labels : tuple of int
        Class of each file, -1 without one.
    facts : mapping
        What opening found and need not find again.
    """

    paths: tuple[str, ...]
    labels: tuple[int, ...]
    facts: Mapping[str, Any]


class TableSource(Closing):
    """Samples from two columns, inputs and targets; `y` may be missing for predictions.

    Attributes
    ----------
    about : About or None
        Class names and preparation, to be kept with the weights.
    sample_bytes : int
        What reading a sample takes for a while, beside its values: a decoded image.
    trusted : bool
        A manifest says that all samples are good.
    trusted_labels : tuple of int
        Smallest and largest label, where a manifest tells; they are not read again then.
    """

    def __init__(
        self,
        name: str,
        x: Column,
        y: Column | None,
        notes: tuple[str, ...] = (),
        *,
        about: About | None = None,
        label_advice: str = "",
        origin: Origin | None = None,
    ) -> None:
        """Take over the columns and check that they have equally many rows.

        Parameters
        ----------
        notes : tuple of str
            Lines for the user.
        about : About, optional
            Class names and preparation, to be kept with the weights.
        label_advice : str
            What else helps against labels outside their range.
        origin : Origin, optional
            Files of the samples, where each has its own.
        """
        self.name = name
        self.notes = notes
        self.about = about
        self.origin = origin
        self.sample_bytes = 0
        self.trusted = False
        self.trusted_labels: tuple[int, ...] = ()
        self._label_advice = label_advice
        self.x = x
        self.y = y
        self.count = x.count
        self._labels = False
        self._whole = False
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
        """Refuse wrong shapes, element types, labels and targets; DataError or ShapeError."""
        self._check_shape(self.x, expected.input_shape, "input")
        self._check_inputs(expected.index_limits)
        if not targets:
            return
        if self.y is None:
            raise DataError(f"{self.name} has no targets (y), only inputs: give both, as (x, y)")
        self._labels = bool(expected.n_classes)
        if self._labels:
            check_label_dtype(self.y)
            self._scan_labels(self.y, expected.n_classes, expected.ignored_label)
        else:
            self._check_shape(self.y, expected.target_shape, "target")
            check_float_dtype(self.y, bytes_allowed=False)
            if expected.targets is not None:
                expected.targets.scan(self.y)

    def _check_inputs(self, limits: tuple[int, ...]) -> None:
        """Refuse inputs without a conversion rule, and indices out of their ranges."""
        self._whole = bool(limits) and all(limits) and self.x.dtype.kind in "iub"
        if any(limits) and not self._whole and self.x.dtype == np.uint8:
            raise DataError(
                f"{self.x.name} has elements of type uint8, some are indices and some numbers, and "
                "nobody can know their scale: give x.astype('float32'), the numbers scaled"
            )
        if not self._whole:
            check_float_dtype(self.x, bytes_allowed=True)
        if any(limits):
            scan_indices(self.x, np.asarray(limits, np.int64))

    def _scan_labels(self, y: Column, n_classes: int, ignored: int) -> None:
        """Read every label once, unless a manifest tells their range; refuse those outside."""
        if (
            self.trusted_labels
            and 0 <= min(self.trusted_labels) <= max(self.trusted_labels) < n_classes
        ):
            return
        try:
            scan_labels(y, n_classes, ignored)
        except DataError as error:
            if not self._label_advice:
                raise
            raise DataError(f"{error}; {self._label_advice}") from error

    def _check_shape(self, column: Column, want: tuple[int, ...], what: str) -> None:
        """Refuse samples of another shape than planned."""
        if not fits(column.row_shape, want):
            raise ShapeError(
                f"{column.name}: one {what} has shape {column.row_shape}, the plan wants {want}; "
                + _shape_hint(column.row_shape, want, what)
            )

    def read(self, rows: Rows, x: NDArray[np.float32], target: NDArray[Any] | None) -> None:
        """Write samples into the caller's buffers."""
        scratch = self._scratch("x", self.x, len(rows))
        read_float32(self.x, rows, x, scratch, scaled=not self._whole)
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
        return self.sample_bytes + sum(_scratch_bytes(column, n) for column in columns)

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
