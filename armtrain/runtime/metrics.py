"""Figures of an evaluation beside loss and accuracy: top-k accuracy, confusion matrix, MAE.

They come from the network's outputs, batch by batch, in memory that does not grow with the data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from armtrain.errors import ArgumentError

__all__ = ["FORMS", "Metric", "Value", "as_names", "metrics_of", "outputs_bytes"]

Value = float | tuple[tuple[int, ...], ...]
"""What a metric comes to: a number, or rows of counts."""

FORMS: tuple[tuple[str, str], ...] = (
    ("topK", "share of samples whose label is among the K largest outputs, as top5"),
    ("confusion", "counts of samples: rows are labels, columns the largest output"),
    ("mae", "mean absolute error of outputs, where targets are values"),
)
"""Names of metrics and what they mean."""

_TOP = re.compile(r"top([1-9]\d{0,8})")
_VALUED = ("mse", "l1", "smooth_l1", "huber")
"""Losses that bring outputs near their targets; those of others are logits or logarithms."""
_CELL_BYTES = 48
"""Of a count: in the array, and as an object in its tuple."""


class Metric(Protocol):
    """A figure that grows batch by batch.

    Attributes
    ----------
    nbytes : int
        Memory for what it keeps and returns.
    """

    nbytes: int

    def add(self, outputs: NDArray[np.float32], target: NDArray[Any]) -> None:
        """Count samples: outputs (n, ...) and their targets (n, ...)."""

    def value(self) -> Value:
        """Return the figure of all samples so far."""


class _TopK:
    """How often the label is among the k largest outputs; of equal ones the first is larger."""

    nbytes = 0

    def __init__(self, k: int, ignored: int) -> None:
        self._k = k
        self._ignored = ignored
        self._hits = self._samples = 0

    def add(self, outputs: NDArray[np.float32], target: NDArray[Any]) -> None:
        counted = target != self._ignored  # others need not be classes
        outputs, target = outputs[counted], target[counted]
        at_label = np.take_along_axis(outputs, target[:, np.newaxis].astype(np.intp), axis=1)
        before = np.arange(outputs.shape[1]) < target[:, np.newaxis]
        rank = ((outputs > at_label) | ((outputs == at_label) & before)).sum(axis=1)
        self._hits += int((rank < self._k).sum())
        self._samples += len(target)

    def value(self) -> Value:
        return self._hits / self._samples if self._samples else 0.0


class _Confusion:
    """How many samples of each label have their first maximum at each class."""

    def __init__(self, classes: int, ignored: int) -> None:
        self.nbytes = classes * classes * _CELL_BYTES
        self._shape = (classes, classes)
        self._ignored = ignored
        self._counts: NDArray[np.int64] | None = None

    def add(self, outputs: NDArray[np.float32], target: NDArray[Any]) -> None:
        if self._counts is None:
            self._counts = np.zeros(self._shape, np.int64)
        counted = target != self._ignored
        np.add.at(self._counts, (target[counted], outputs[counted].argmax(axis=1)), 1)

    def value(self) -> Value:
        counts = np.zeros(self._shape, np.int64) if self._counts is None else self._counts
        return tuple(tuple(row) for row in counts.tolist())


class _MeanAbsoluteError:
    """Mean over all elements of |output - target|, in double."""

    nbytes = 0

    def __init__(self) -> None:
        self._sum, self._elements = 0.0, 0

    def add(self, outputs: NDArray[np.float32], target: NDArray[Any]) -> None:
        differences = np.subtract(outputs, target.reshape(outputs.shape), dtype=np.float64)
        self._sum += float(np.abs(differences).sum())
        self._elements += differences.size

    def value(self) -> Value:
        return self._sum / self._elements


def as_names(metrics: object) -> tuple[str, ...]:
    """Return names of metrics, given one by one or as a text with commas, each once.

    Raises
    ------
    ArgumentError
        One is unknown.

    Examples
    --------
    >>> as_names("top5,confusion")
    ('top5', 'confusion')
    """
    listed = metrics.split(",") if isinstance(metrics, str) else metrics
    names = tuple(listed) if isinstance(listed, Iterable) else (listed,)
    for name in names:
        if not isinstance(name, str) or not (name in ("confusion", "mae") or _TOP.fullmatch(name)):
            known = ", ".join(form for form, _ in FORMS)
            raise ArgumentError(
                f"metrics: {name!r:.80} is unknown; there are {known}, as in "
                "metrics=['top5', 'confusion']"
            )
    return tuple(dict.fromkeys(names))


def metrics_of(metrics: object, *, n_classes: int, loss: str, ignored: int) -> dict[str, Metric]:
    """Return the metrics of names, ready for an evaluation.

    Parameters
    ----------
    metrics : str or iterable of str
    n_classes : int
        Of labels; 0 for float targets.
    loss : str
        Text of the plan's loss.
    ignored : int
        Label of samples that do not count, which need not be a class.

    Raises
    ------
    ArgumentError
        One is unknown, or the plan has not what it is made from.
    """
    made: dict[str, Metric] = {}
    for name in as_names(metrics):
        make = _values(name, loss) if name == "mae" else _labelled(name, n_classes, loss, ignored)
        made[name] = make()
    return made


def _values(name: str, loss: str) -> Callable[[], Metric]:
    """Return what makes a metric of float targets."""
    word = loss.partition(":")[0]
    if word not in _VALUED:
        raise ArgumentError(
            f"metrics: '{name}' compares outputs with targets, which the plan's loss "
            f"'{word}' does not bring together; it goes with {', '.join(_VALUED)}"
        )
    return _MeanAbsoluteError


def _labelled(name: str, n_classes: int, loss: str, ignored: int) -> Callable[[], Metric]:
    """Return what makes a metric of labels."""
    if not n_classes:
        raise ArgumentError(
            f"metrics: '{name}' needs labels, the targets of the plan's loss '{loss}' are floats"
        )
    top = _TOP.fullmatch(name)
    if top is None:
        return lambda: _Confusion(n_classes, ignored)
    k = int(top[1])
    if k > n_classes:
        raise ArgumentError(
            f"metrics: '{name}' of {n_classes} classes; all are among the largest {n_classes}"
        )
    return lambda: _TopK(k, ignored)


def outputs_bytes(metrics: dict[str, Metric], n: int, shape: tuple[int, ...]) -> int:
    """Return the memory of an evaluation with metrics: theirs, outputs and what compares them.

    Parameters
    ----------
    metrics : dict of str to Metric
    n : int
        Samples of a batch.
    shape : tuple of int
        Of the output for one sample.
    """
    batch = n * prod(shape) * (4 + 2 * 8) if metrics else 0  # float32, and two arrays of double
    return batch + sum(metric.nbytes for metric in metrics.values())
