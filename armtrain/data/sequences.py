"""Sequences of different lengths as one array: padded, with a mask as their last feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtrain.errors import DataError
from armtrain.limits import MAX_DIM
from armtrain.values import as_tuple, integer

__all__ = ["pad_sequences"]


def pad_sequences(
    sequences: Sequence[ArrayLike], *, length: int | None = None
) -> NDArray[np.float32]:
    """Return sequences of different lengths as one array, with a mask as their last feature.

    A network has one input, so that the mask comes along with the features: in `forward`,
    `self.gru(x[:, :, :-1], mask=x[:, :, -1])` takes both apart. Scale the features before, since
    the mask must stay ones and zeros.

    Parameters
    ----------
    sequences : sequence of array_like of float
        Each (steps, features), or (steps,) for one feature.
    length : int, optional
        Steps of all; longer sequences lose their last steps. By default those of the longest.
        Data for predictions need the length of the training's.

    Returns
    -------
    ndarray of float32, shape (len(sequences), length, features + 1)
        Steps that a sequence does not have are zeros. The last feature is 1 where there is a step.

    Raises
    ------
    DataError
        There is no sequence, one has no steps or other features than the first, or its elements
        are no floats.

    Examples
    --------
    >>> pad_sequences([[[0.5], [1.5]], [[2.5]]]).tolist()
    [[[0.5, 1.0], [1.5, 1.0]], [[2.5, 1.0], [0.0, 0.0]]]
    """
    given = as_tuple(sequences)
    if given is None:
        raise DataError(
            f"sequences needs a list of arrays (steps, features), got {type(sequences).__name__}"
        )
    columns = [_steps(row, sequence) for row, sequence in enumerate(given)]
    if not columns:
        raise DataError("there is no sequence to pad: give at least one array (steps, features)")
    features = columns[0].shape[1]
    if length is None:
        length = max(map(len, columns))
    length = integer("length", length, 1, MAX_DIM)
    padded = np.zeros((len(columns), length, features + 1), np.float32)
    for row, steps in enumerate(columns):
        if steps.shape[1] != features:
            raise DataError(
                f"sequence {row} (counted from 0) has {steps.shape[1]} features, the first one "
                f"has {features}: all need the same"
            )
        padded[row, : len(steps), :features] = steps[:length]
        padded[row, : len(steps), features] = 1
    return padded


def _steps(row: int, sequence: Any) -> NDArray[np.floating]:
    """Return a sequence as (steps, features)."""
    try:
        steps = np.asarray(sequence)
    except ValueError as error:  # NumPy's for lists of different lengths
        raise DataError(
            f"sequence {row} (counted from 0) is no array: every step needs the same features"
        ) from error
    if steps.ndim == 1:
        steps = steps[:, np.newaxis]
    if steps.ndim != 2 or not steps.size:
        raise DataError(
            f"sequence {row} (counted from 0) has shape {steps.shape}: it needs (steps, features), "
            "at least one of each"
        )
    if steps.dtype.kind != "f":
        raise DataError(
            f"sequence {row} (counted from 0) has elements of type {steps.dtype}: scale the values "
            "yourself, for example x.astype('float32') / x.max()"
        )
    return steps
