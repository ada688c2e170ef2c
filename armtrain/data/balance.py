"""Weights that make up for classes of unlike size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from armtrain.data.columns import ArrayColumn, Column, blocks
from armtrain.data.convert import check_label_dtype
from armtrain.data.spec import open_table, parse_spec
from armtrain.errors import ArgumentError, DataError
from armtrain.limits import MAX_WEIGHTS
from armtrain.values import integer

__all__ = ["balanced", "class_weights"]


def balanced(counts: Sequence[int]) -> tuple[float, ...]:
    """Return samples / (classes * count) of every class: all together, each weighs the same.

    Examples
    --------
    >>> balanced([6, 2])
    (0.6666666666666666, 2.0)
    """
    total = sum(counts)
    return tuple(total / (len(counts) * count) for count in counts)


def class_weights(data: Any, *, n_classes: int | None = None) -> tuple[float, ...]:
    """Return the 'balanced' weights of classes, for `nn.CrossEntropyLoss(weight=...)`.

    A class weighs samples / (classes * its samples), so that rare classes count as much as
    frequent ones and the mean weight of a sample is 1.

    Parameters
    ----------
    data : str or array_like of int
        A SPEC such as 'csv:iris.csv?label=species', or labels, one a sample.
    n_classes : int, optional
        By default what the data have names for, at least the largest label and 1.

    Raises
    ------
    ArgumentError
        A class has no samples, of which no weight follows.
    DataError
        There are no labels from 0, or they do not fit `n_classes`.

    Examples
    --------
    >>> class_weights([0, 0, 0, 1])
    (0.6666666666666666, 2.0)
    """
    if n_classes is not None:
        n_classes = integer("n_classes", n_classes, 1, MAX_WEIGHTS)
    if not isinstance(data, str):
        return _of_column(ArrayColumn("labels", np.asarray(data)), n_classes, 0)
    with open_table(parse_spec(data)) as source:
        if source.y is None:
            raise DataError(f"{source.name} has no labels (y)")
        names = source.about.classes if source.about is not None else ()
        return _of_column(source.y, n_classes, len(names))


def _of_column(labels: Column, n_classes: int | None, least: int) -> tuple[float, ...]:
    """Count labels and return the weights of `n_classes`, or of at least `least` classes."""
    check_label_dtype(labels)
    counts = np.zeros(n_classes or least, np.int64)
    most = MAX_WEIGHTS if n_classes is None else n_classes
    for first, block in blocks(labels):
        values = block.reshape(-1)
        bad = (values < 0) | (values >= most)
        if bad.any():
            row = int(bad.argmax())
            raise DataError(
                f"{labels.name}: the label of row {first + row} (counted from 0) is {values[row]}; "
                f"labels must lie in 0..{most - 1}: leave samples out that the loss shall ignore, "
                f"as class_weights(y[y != {values[row]}])"
            )
        part = np.bincount(values.astype(np.intp), minlength=len(counts))
        part[: len(counts)] += counts
        counts = part
    empty = np.flatnonzero(counts == 0)
    if not len(counts) or len(empty):
        listed = ", ".join(map(str, empty[:8].tolist())) + (", ..." if len(empty) > 8 else "")
        raise ArgumentError(
            f"{labels.name}: of {len(counts)} classes {len(empty)} have no samples ({listed}), so "
            "that no weight follows for them: number the classes without gaps, or write the "
            "weights yourself, as in weight=[1.0, 2.5, ...]"
        )
    return balanced(counts.tolist())
