"""Samples that Python code makes: objects with `[i]` and `len()`, generators, functions.

An object with `len()` and `[i]` is asked for the samples of each batch, so that nothing is kept; a
resumed run continues with the same bits if `[i]` gives the same sample every time. A generator
can only be run through once: its samples are kept in a temporary file, of which a training reads
any sample at any time. It must come to an end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.data.columns import Rows
from armtrain.data.source import TableSource
from armtrain.data.spill import Spill
from armtrain.errors import DataError

__all__ = ["open_generator", "open_items"]

_ONE = "one sample at a time: (x, y), or x alone for predictions"


def _part(where: str, value: Any) -> NDArray[Any]:
    """Return an input or target as an array."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise DataError(f"{where} is no array of one shape ({error})") from error
    if array.dtype.kind not in "fiub":
        raise DataError(f"{where} holds {array.dtype} values; numbers are needed")
    return array


def _split(where: str, item: Any) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return x and y of a sample, y None for an x alone."""
    if not isinstance(item, tuple):
        return _part(f"{where}: x", item), None
    if len(item) != 2:
        raise DataError(f"{where} is a tuple of {len(item)}; give {_ONE}")
    return _part(f"{where}: x", item[0]), _part(f"{where}: y", item[1])


def _same(where: str, got: NDArray[Any] | None, like: NDArray[Any] | None) -> None:
    """Refuse a sample that is not made like the first one."""
    if (got is None) != (like is None):
        raise DataError(f"{where}: some samples have a y and some have none; give {_ONE}")
    if got is None or like is None:
        return
    if got.shape != like.shape or not np.can_cast(got.dtype, like.dtype, "same_kind"):
        raise DataError(
            f"{where} has shape {got.shape} and type {got.dtype}, the first sample {like.shape} "
            f"and {like.dtype}; give {_ONE}, all of one shape and type"
        )


class _Items:
    """An object with `[i]`, and the targets of the samples whose inputs were read last."""

    def __init__(self, items: Any) -> None:
        self.x, self.y = _split("sample 0", items[0])
        self._items = items
        self._rows = b""
        self._targets: list[NDArray[Any]] = []

    def inputs(self, rows: Rows, out: NDArray[Any]) -> None:
        """Write inputs; keep the targets that come along."""
        self._rows, self._targets = b"", []
        for i, row in enumerate(rows.tolist()):
            out[i], y = self._sample(row)
            if y is not None:
                self._targets.append(y)
        self._rows = rows.tobytes()

    def targets(self, rows: Rows, out: NDArray[Any]) -> None:
        """Write targets, those of the last inputs without another look."""
        known = rows.tobytes() == self._rows
        for i, row in enumerate(rows.tolist()):
            out[i] = self._targets[i] if known else self._sample(row)[1]

    def _sample(self, row: int) -> tuple[NDArray[Any], NDArray[Any] | None]:
        where = f"sample {row}"
        x, y = _split(where, self._items[row])
        _same(f"{where}: x", x, self.x)
        _same(f"{where}: y", y, self.y)
        return x, y


class _ItemColumn:
    """Inputs or targets of such an object."""

    def __init__(self, name: str, items: _Items, count: int, like: NDArray[Any]) -> None:
        self.name = name
        self.count = count
        self.row_shape = like.shape
        self.dtype = like.dtype
        self._read = items.inputs if like is items.x else items.targets

    def read(self, rows: Rows, out: NDArray[Any]) -> None:
        """Write `rows` into `out`."""
        self._read(rows, out)

    def close(self) -> None:
        """Do nothing: the object is the user's."""


def open_items(items: Any) -> TableSource:
    """Open an object whose `len()` and `[i]` give samples.

    Raises
    ------
    DataError
        It is empty, or its first sample is none.
    """
    count = len(items)
    name = type(items).__name__
    if not count:
        raise DataError(f"{name} holds no samples")
    samples = _Items(items)
    y = None if samples.y is None else _ItemColumn(f"{name}:y", samples, count, samples.y)
    return TableSource(name, _ItemColumn(f"{name}:x", samples, count, samples.x), y)


def open_generator(samples: Iterable[Any]) -> TableSource:
    """Run through a generator and keep its samples in a temporary file.

    Raises
    ------
    DataError
        It yields nothing, or samples of different shapes.
    StorageError
        The temporary directory is full.
    """
    iterator = _counted(samples)
    first = next(iterator, None)
    if first is None:
        raise DataError("the generator yields no samples; was it used up by an earlier call?")
    x, y = _split("sample 0", first)
    with ExitStack() as stack:
        inputs = stack.enter_context(Spill("generator:x", x.shape, x.dtype))
        targets: Spill | None = None
        if y is not None:
            targets = stack.enter_context(Spill("generator:y", y.shape, y.dtype))
        for number, item in enumerate(chain([first], iterator)):
            where = f"sample {number}"
            got_x, got_y = _split(where, item)
            _same(f"{where}: x", got_x, x)
            _same(f"{where}: y", got_y, y)
            inputs.append(got_x)
            if targets is not None:
                targets.append(got_y)
        size = inputs.count * (x.nbytes + (y.nbytes if y is not None else 0))
        note = f"generator: {inputs.count} samples kept in a temporary file of {size} B"
        column = targets.column() if targets is not None else None
        return TableSource("generator", inputs.column(), column, (note,))


def _counted(samples: Iterable[Any]) -> Iterator[Any]:
    """Yield the samples; an error of the user's code tells at which one it happened."""
    number = 0
    try:
        for sample in samples:
            yield sample
            number += 1
    except Exception as error:
        error.add_note(f"while sample {number} of the generator was made")
        raise
