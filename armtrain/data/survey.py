"""What is in data: counts, ranges, what looks wrong; everything is read once, a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isnan, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.data.columns import Column, blocks
from armtrain.data.convert import check_float_dtype
from armtrain.data.preflight import IMBALANCE, input_remarks, target_remarks
from armtrain.data.source import TableSource
from armtrain.errors import DataError
from armtrain.limits import MAX_INDICES

__all__ = ["ClassCount", "Range", "Survey", "survey"]

_MAX_CLASSES = 65_536
_GAP = 10


@dataclass(frozen=True)
class ClassCount:
    """One class: its number, name ('' without one) and samples."""

    number: int
    name: str
    count: int


@dataclass(frozen=True)
class Range:
    """Values of a column as the network sees them (uint8 divided by 255).

    Attributes
    ----------
    dtype : str
        Element type of the data.
    shape : tuple of int
        Of one sample.
    low, high, mean : float
        Of the finite values; NaN when there are none.
    nonfinite : int
        Values that are NaN or infinite.
    first_nonfinite : int
        Row of the first one, counted from 0; -1 without one.
    constant : int
        Elements of a sample that are the same in all samples.
    """

    dtype: str
    shape: tuple[int, ...]
    low: float
    high: float
    mean: float
    nonfinite: int
    first_nonfinite: int
    constant: int


@dataclass(frozen=True)
class Survey:
    """Everything that was counted.

    Attributes
    ----------
    samples : int
    inputs : Range
    targets : Range or None
        Of regression targets.
    classes : tuple of ClassCount
        Of labels; classes without samples among them, and a negative label that is none.
    errors : tuple of str
        What training would refuse.
    warnings : tuple of str
        What training would take and probably should not.
    """

    samples: int
    inputs: Range
    targets: Range | None
    classes: tuple[ClassCount, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]


def survey(source: TableSource) -> Survey:
    """Read all samples of a source once and count."""
    errors: list[str] = []
    inputs = _inputs(source.x, errors)
    targets: Range | None = None
    classes: tuple[ClassCount, ...] = ()
    if source.y is not None and source.y.dtype.kind in "iub" and not _size(source.y) > 1:
        classes = _classes(source, errors)
    elif source.y is not None:
        targets = _range(source.y, errors, bytes_allowed=False)
    warnings = [
        *_input_warnings(inputs, source.count),
        *_remarks(targets, source.count, target_remarks),
        *_class_warnings(classes),
    ]
    return Survey(source.count, inputs, targets, classes, tuple(errors), tuple(warnings))


def _size(column: Column) -> int:
    return prod(column.row_shape)


def _inputs(column: Column, errors: list[str]) -> Range:
    """Return the range of the inputs; integers without a scale may be indices of an embedding."""
    refused: list[str] = []
    found = _range(column, refused, bytes_allowed=True)
    errors += () if _may_be_indices(found) else refused
    return found


def _may_be_indices(found: Range) -> bool:
    """Tell whether inputs are integers without a scale that an embedding may take."""
    plain = np.dtype(found.dtype).kind in "iub" and np.dtype(found.dtype) != np.uint8
    return plain and 0 <= found.low <= found.high < MAX_INDICES


def _input_warnings(found: Range, count: int) -> list[str]:
    """Return what a training's pre-flight would tell of the inputs."""
    if not _may_be_indices(found):
        return _remarks(found, count, input_remarks)
    return [
        f"inputs are integers in {found.low:g}..{found.high:g}: indices for nn.Embedding with "
        f"num_embeddings={int(found.high) + 1} or more; a model that takes numbers wants floats, "
        "scaled"
    ]


def _range(column: Column, errors: list[str], *, bytes_allowed: bool) -> Range:
    """Return the range of a column of numbers; add what training would refuse."""
    try:
        check_float_dtype(column, bytes_allowed=bytes_allowed)
    except DataError as error:
        errors.append(str(error))
    scale = 255.0 if column.dtype == np.uint8 and bytes_allowed else 1.0
    low, high, total, finite, bad, bad_row = np.inf, -np.inf, 0.0, 0, 0, -1
    first: NDArray[Any] | None = None
    same = np.ones(_size(column), bool)
    for row, raw in blocks(column):
        block = raw.reshape(len(raw), -1)
        if first is None:
            first = block[0].copy()
        same &= (block == first).all(axis=0)
        good = np.isfinite(block)
        if not good.all():
            bad += int(good.size - good.sum())
            bad_row = row + int(np.argmin(good.all(axis=1))) if bad_row < 0 else bad_row
            block = block[good]
        if block.size:
            low, high = min(low, float(block.min())), max(high, float(block.max()))
            total += float(block.sum(dtype=np.float64))
            finite += block.size
    if bad:
        errors.append(
            f"{column.name}: {bad} value(s) are NaN or infinite, the first in row {bad_row} "
            "(counted from 0); repair or leave out these samples"
        )
    if not finite:
        low = high = total = np.nan
    return Range(
        str(column.dtype),
        column.row_shape,
        low / scale,
        high / scale,
        total / scale / max(finite, 1),
        bad,
        bad_row,
        int(same.sum()) if column.count > 1 else 0,
    )


def _classes(source: TableSource, errors: list[str]) -> tuple[ClassCount, ...]:
    """Count the labels; classes without samples keep their place."""
    assert source.y is not None
    counts: dict[int, int] = {}
    for _, raw in blocks(source.y):
        values, numbers = np.unique(raw, return_counts=True)
        for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
            counts[int(value)] = counts.get(int(value), 0) + number
        if len(counts) > _MAX_CLASSES:
            errors.append(f"{source.y.name} has more than {_MAX_CLASSES} different labels")
            return ()
    names = source.about.classes if source.about is not None else ()
    if sum(label < 0 for label in counts) > 1:  # a loss ignores one
        errors.append(
            f"{source.y.name} has labels below 0, the smallest {min(counts)}: leave these samples "
            "out, or make all of them -1, which ignore_index=-1 of the loss leaves out"
        )
    last = max(max(counts), len(names) - 1)
    known = range(last + 1) if last <= 2 * len(counts) + _GAP else sorted(counts)
    numbers_of = sorted({*known, *counts})
    return tuple(
        ClassCount(n, names[n] if 0 <= n < len(names) else "", counts.get(n, 0)) for n in numbers_of
    )


def _remarks(found: Range | None, count: int, remarks: Callable[..., Iterator[str]]) -> list[str]:
    """Return what a training's pre-flight would tell of a column."""
    if found is None or isnan(found.low):
        return []
    same = found.constant == prod(found.shape)
    return list(remarks(found.low, found.high, count, same=same))


def _class_warnings(classes: tuple[ClassCount, ...]) -> list[str]:
    """Say what is unusual about labels."""
    warnings = [
        f"{c.count} sample(s) have the label {c.number}, which is no class: ignore_index="
        f"{c.number} of the loss leaves them out"
        for c in classes
        if c.number < 0
    ]
    classes = classes[len(warnings) :]
    used = [c for c in classes if c.count]
    if not used:
        return warnings
    empty = [c.name or str(c.number) for c in classes if not c.count]
    if empty:
        warnings.append(
            f"{len(empty)} class(es) without samples: {', '.join(empty[:8])}; they keep their "
            "numbers"
        )
    if len(used) == 1:
        warnings.append(f"all samples are of one class, {used[0].name or used[0].number}")
    if classes[0].count == 0 and not classes[0].name and classes[0].number == 0:
        warnings.append("no label is 0: if they are numbered from 1, subtract 1")
    most, least = max(used, key=lambda c: c.count), min(used, key=lambda c: c.count)
    if most.count > IMBALANCE * least.count:
        warnings.append(
            f"imbalance: class {most.name or most.number} has {most.count} samples, "
            f"{least.name or least.number} has {least.count}; weigh the classes in the loss or "
            "collect more"
        )
    return warnings
