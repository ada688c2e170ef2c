"""Pre-flight: every sample is read once before the first step, in bounded memory.

Values that are not finite are refused with their row: in the middle of a training they would cost
the epochs before them, as labels, indices and targets out of range would, which are refused when
data are opened. What a training would take but probably should not (pixels that nobody scaled,
inputs or targets that never change, one class alone) is told. `armtrain-run` does the same
(kernels/run/preflight.c) with the same words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf, isinf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.data.columns import Rows
from armtrain.data.source import Expected, Source
from armtrain.data.target_range import TargetRange
from armtrain.errors import DataError, NonFiniteError

__all__ = ["IMBALANCE", "ROLES", "Scratch", "input_remarks", "preflight", "target_remarks"]

ROLES = ("training", "validation")
"""What data are for, the first of which gets all remarks about classes."""

_LARGE_INPUT, _LARGE_TARGET = 20.0, 1000.0
_PIXEL = (128.0, 255.0)
IMBALANCE = 10
"""Samples of the largest class for one of the smallest, beyond which it is told."""
_LISTED = 8
_UNEVEN = 1e-3
"""How far the sum of a row's shares is from 1 where it is told: shares of float16 come closer."""


@dataclass(frozen=True)
class Scratch:
    """Buffers of the caller for one batch: rows (n,), x (n, ...) and target (n, ...)."""

    rows: Rows
    x: NDArray[np.float32]
    target: NDArray[Any]


@dataclass
class _Places:
    """Rows of one kind: how many, and of the first its number, element and value to be told."""

    count: int = 0
    row: int = 0
    element: int = 0
    value: float = 0.0

    def add(self, rows: Rows, hit: NDArray[np.bool_], values: NDArray[Any]) -> None:
        """Count rows with a `hit`, which has the shape of `values`, (n, elements)."""
        some = hit.any(axis=1)
        if some.any() and not self.count:
            sample = int(some.argmax())
            self.row, self.element = int(rows[sample]), int(hit[sample].argmax())
            self.value = float(values[sample, self.element])
        self.count += int(some.sum())


@dataclass
class _Values:
    """What was seen of a column of numbers.

    Attributes
    ----------
    low, high : float
    same : bool
        All rows equal the first one.
    unmeasured : ndarray of bool, shape (elements of a row,) or (0,)
        Indices, whose size means nothing; they are in no range.
    bad : _Places
        Rows with a value that is not finite.
    allowed : TargetRange, optional
        Which targets the loss takes.
    uneven : _Places
        Rows of shares that do not sum to 1.
    """

    low: float = inf
    high: float = -inf
    same: bool = True
    bad: _Places = field(default_factory=_Places)
    allowed: TargetRange | None = None
    uneven: _Places = field(default_factory=_Places)
    unmeasured: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    _first: NDArray[np.float32] | None = None

    def add(self, rows: Rows, values: NDArray[np.float32]) -> None:
        """Look at rows of the data, values of shape (n, ...)."""
        flat = values.reshape(len(rows), -1)
        measured = flat[:, ~self.unmeasured] if self.unmeasured.any() else flat
        finite = np.isfinite(flat)
        if not finite.all():
            self.bad.add(rows, ~finite, flat)
            return
        if self.allowed is not None and self.allowed.shares:
            sums = flat.sum(axis=1, dtype=np.float64, keepdims=True)
            self.uneven.add(rows, np.abs(sums - 1.0) > _UNEVEN, sums)
        if measured.size:
            self.low = min(self.low, float(measured.min()))
            self.high = max(self.high, float(measured.max()))
        if self.same:
            self._first = flat[0].copy() if self._first is None else self._first
            self.same = bool((flat == self._first).all())

    def refuse(self, name: str) -> None:
        """Refuse values that are not finite.

        Raises
        ------
        NonFiniteError
            Naming the first row and element, and how many rows there are.
        """
        bad = self.bad
        if bad.count:
            raise NonFiniteError(
                f"{name}: row {bad.row} (counted from 0) is not finite at element {bad.element}; "
                f"repair or leave out that sample ({bad.count} in all; nothing was trained)"
            )

    def remarks(self, count: int) -> Iterator[str]:
        """Say what is unusual about `count` targets."""
        bounded = self.allowed is not None and not isinf(self.allowed.high)
        low, high = (0.0, 0.0) if bounded else (self.low, self.high)
        yield from target_remarks(low, high, count, same=self.same)
        if self.uneven.count:
            yield (
                f"{self.uneven.count} of {count} targets do not sum to 1, the first one, of row "
                f"{self.uneven.row} (counted from 0), but to {self.uneven.value:g}: divide each by "
                "its sum, unless they are not meant as probabilities of classes"
            )


@dataclass
class _Found:
    """What one pass saw."""

    count: int
    x: _Values = field(default_factory=_Values)
    y: _Values = field(default_factory=_Values)
    classes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


def preflight(source: Source, expected: Expected, scratch: Scratch, role: str) -> tuple[str, ...]:
    """Read all samples of open and checked data once.

    Parameters
    ----------
    scratch : Scratch
        Takes a batch at a time; nothing else grows with the data.
    role : str
        One of `ROLES`.

    Returns
    -------
    tuple of str
        Remarks for the user. None for data that say they can be trusted (`trusted` is true):
        generated ones, and those whose check is written down.

    Raises
    ------
    NonFiniteError
        An input or target is not finite.
    DataError
        A label is none of the plan's classes, or the loss does not take a target.
    """
    if getattr(source, "trusted", False):
        return ()
    found = _read(source, expected, scratch)
    found.x.refuse(f"{source.name}:x")
    found.y.refuse(f"{source.name}:y")
    remarks = [*input_remarks(found.x.low, found.x.high, found.count, same=found.x.same)]
    if not expected.n_classes:
        remarks += found.y.remarks(found.count)
    else:
        remarks += _class_remarks(found, role, expected.ignored_label)
    return tuple(f"{role} data: {remark}" for remark in remarks)


def _read(source: Source, expected: Expected, scratch: Scratch) -> _Found:
    """Look at every sample."""
    found = _Found(source.count, classes=np.zeros(expected.n_classes, np.int64))
    found.y.allowed = expected.targets
    found.x.unmeasured = np.asarray(expected.index_limits, np.int64) > 0
    for first in range(0, source.count, len(scratch.rows)):
        n = min(len(scratch.rows), source.count - first)
        rows, x, target = scratch.rows[:n], scratch.x[:n], scratch.target[:n]
        rows[:] = np.arange(first, first + n, dtype=np.uint64)
        source.read(rows, x, target)
        found.x.add(rows, x)
        if expected.n_classes:
            found.classes += _count(source.name, expected, rows, target.reshape(-1))
            continue
        if expected.targets is not None:  # for a source whose own check let it pass
            expected.targets.refuse(f"{source.name}:y", rows, target)
        found.y.add(rows, target)
    return found


def _count(name: str, expected: Expected, rows: Rows, labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return how many samples that count each class has."""
    n_classes, counted = expected.n_classes, labels != expected.ignored_label
    outside = counted & ((labels < 0) | (labels >= n_classes))
    if outside.any():  # of a source whose own check let it pass
        place = int(outside.argmax())
        raise DataError(
            f"{name}:y: labels must lie in 0..{n_classes - 1}, row {rows[place]} (counted from 0) "
            f"has {labels[place]}"
        )
    return np.bincount(labels[counted], minlength=n_classes)


def input_remarks(low: float, high: float, count: int, *, same: bool) -> Iterator[str]:
    """Say what is unusual about the inputs of `count` samples, all of them the `same` or not."""
    if low >= 0 and _PIXEL[0] <= high <= _PIXEL[1]:
        yield (
            f"inputs lie in {low:g}..{high:g}, which looks like pixels that were not scaled: give "
            "them as uint8, which is divided by 255, or divide them yourself"
        )
    elif max(-low, high) > _LARGE_INPUT:
        yield (
            f"inputs lie in {low:g}..{high:g}; networks learn from values of about -1 to 1: scale "
            "them"
        )
    if same and count > 1:
        yield f"all {count} samples have the same inputs: there is nothing to learn from"


def target_remarks(low: float, high: float, count: int, *, same: bool) -> Iterator[str]:
    """Say what is unusual about the targets, numbers, of `count` samples."""
    if same and count > 1:
        yield f"all {count} samples have the same targets: there is nothing to learn"
    if max(-low, high) > _LARGE_TARGET:
        yield (
            f"targets lie in {low:g}..{high:g}; losses and gradients grow with them: scale them, "
            "and outputs back"
        )


def _class_remarks(found: _Found, role: str, ignored_label: int) -> Iterator[str]:
    """Say what is unusual about labels."""
    counts = {k: n for k, n in enumerate(found.classes.tolist()) if k != ignored_label}
    used = {k: n for k, n in counts.items() if n}
    if not used:
        yield (
            f"all {found.count} samples have the ignored label {ignored_label}: there is nothing "
            "to learn from"
        )
        return
    if len(used) == 1 and found.count > 1:
        yield f"all samples are of class {next(iter(used))}: a classifier needs two or more"
        return
    if role != ROLES[0]:
        return
    empty = [k for k, n in counts.items() if not n]
    if empty:
        listed = ", ".join(map(str, empty[:_LISTED])) + (", ..." if len(empty) > _LISTED else "")
        hint = "; if labels are counted from 1, subtract 1" if empty[0] == 0 else ""
        yield f"{len(empty)} of {len(counts)} classes have no samples: {listed}{hint}"
    most, least = max(used, key=lambda k: used[k]), min(used, key=lambda k: used[k])
    if used[most] > IMBALANCE * used[least]:
        yield (
            f"class {most} has {used[most]} samples, class {least} only {used[least]}: weigh the "
            "classes in the loss, or collect more"
        )
