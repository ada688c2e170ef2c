"""Batches: the buffers between a data source and the engine, and passes without training."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from armtrain.data import Expected, Source
from armtrain.data.preflight import Scratch, preflight
from armtrain.errors import NonFiniteError, ShapeError
from armtrain.process import check_process
from armtrain.runtime.history import Evaluation
from armtrain.runtime.metrics import Metric

if TYPE_CHECKING:
    from armtrain._engine import Engine

__all__ = ["Buffers", "evaluate_source", "look_at", "predict_source", "train_batch", "with_row"]


class Buffers:
    """One batch of inputs and targets in the user's layout, reused by every step.

    Attributes
    ----------
    x : ndarray of float32, shape (batch, *input_shape)
    target : ndarray of int32, shape (batch,), or float32, shape (batch, *target_shape)
    rows : ndarray of uint64, shape (batch,)
        Sample numbers, written by the shuffle.
    """

    def __init__(self, batch_size: int, expected: Expected) -> None:
        """Allocate the buffers; writing them takes their pages now, not in the first step."""
        self.x = np.full((batch_size, *expected.input_shape), 0, np.float32)
        self.target: NDArray[Any] = np.full(
            (batch_size, *expected.target_shape), 0, expected.target_dtype
        )
        self.rows = np.full(batch_size, 0, np.uint64)
        self._turn = threading.RLock()
        self._owner = os.getpid()

    @property
    def turn(self) -> AbstractContextManager[object]:
        """Return the lock to hold from filling the buffers until nobody needs what they hold.

        Raises
        ------
        EngineError
            This process is a fork, in which nobody might ever release the lock.
        """
        check_process(self._owner)
        return self._turn

    @property
    def batch_size(self) -> int:
        """Return the samples that fit."""
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Return the bytes of all buffers."""
        return self.x.nbytes + self.target.nbytes + self.rows.nbytes

    def load(self, source: Source, n: int, *, targets: bool = True) -> None:
        """Read the samples `rows[:n]` of `source`."""
        source.read(self.rows[:n], self.x[:n], self.target[:n] if targets else None)

    def load_from(self, source: Source, first: int, *, targets: bool) -> int:
        """Read the batch that begins with sample `first` of `source`; return its size."""
        n = min(self.batch_size, source.count - first)
        self.rows[:n] = np.arange(first, first + n, dtype=np.uint64)
        self.load(source, n, targets=targets)
        return n

    def counted(self, n: int, ignored: int | None) -> int:
        """Return how many of the first `n` labels are not the ignored one, if there is one."""
        return n if ignored is None else n - int((self.target[:n] == ignored).sum())

    def batch_number(self, position: int) -> int:
        """Return which batch, counted from 1, holds the sample at `position`."""
        return position // self.batch_size + 1


def with_row(
    error: NonFiniteError,
    source: Source,
    rows: NDArray[np.uint64],
    arrays: dict[str, NDArray[Any]],
    where: str,
) -> NonFiniteError:
    """Return the engine's refusal of a batch with the row of the user's data that caused it.

    Parameters
    ----------
    error : NonFiniteError
        What the engine said; it knows places in the batch only.
    rows : ndarray of uint64, shape (n,)
        Numbers of the batch's samples in the data.
    arrays : dict of ndarray, shape (n, ...)
        What the batch held, by name; when all is finite the computation diverged.
    where : str
        The batch and what stays as it was.
    """
    for name, array in arrays.items():
        spoilt = np.argwhere(~np.isfinite(array.reshape(len(rows), -1)))
        if len(spoilt):
            sample, element = spoilt[0]
            return NonFiniteError(
                f"{source.name}:{name}: row {rows[sample]} (counted from 0) is not finite at "
                f"element {element}; repair or leave out that sample ({where})"
            )
    return NonFiniteError(f"{error} ({where})")


def look_at(buffers: Buffers, source: Source, expected: Expected, role: str) -> tuple[str, ...]:
    """Return what `preflight` remarks on data; the buffers take a batch at a time."""
    with buffers.turn:
        scratch = Scratch(buffers.rows, buffers.x, buffers.target)
        return preflight(source, expected, scratch, role)


def train_batch(engine: Engine, buffers: Buffers, source: Source) -> float:
    """Train all samples of a source as one batch and return their mean loss before the step.

    Raises
    ------
    ShapeError
        More samples than planned.
    NonFiniteError
        The loss or a weight is not finite.
    """
    if source.count > buffers.batch_size:
        raise ShapeError(
            f"a batch of {source.count} samples is larger than the planned {buffers.batch_size}: "
            "split it, or plan with a larger batch_size"
        )
    with buffers.turn:
        n = buffers.load_from(source, 0, targets=True)
        x, target = buffers.x[:n], buffers.target[:n]
        try:
            return float(engine.train_step(x, target, n))
        except NonFiniteError as error:
            rows, arrays = buffers.rows[:n], {"x": x, "y": target}
            raise with_row(error, source, rows, arrays, "the batch of this step") from error


def evaluate_source(
    engine: Engine,
    buffers: Buffers,
    source: Source,
    *,
    labels: bool,
    stop: Callable[[], bool] = lambda: False,
    metrics: Mapping[str, Metric] = MappingProxyType({}),
    shape: tuple[int, ...] = (),
) -> Evaluation | None:
    """Return mean loss and accuracy over all samples; None when `stop()` became true.

    Each batch's loss counts with what its mean was divided by, so that the mean is that of all
    samples in one batch. Labels that the loss ignores count for neither; where none counts, the
    loss is 0. With metrics every batch is predicted too, outputs of `shape` for one sample: the
    loss may have overwritten those of the evaluation.
    """
    loss_sum, counted, correct, labelled = 0.0, 0.0, 0, 0
    ignored = engine.info()["ignored_label"] if labels else None
    out = np.zeros((buffers.batch_size if metrics else 0, *shape), np.float32)
    for first in range(0, source.count, buffers.batch_size):
        with buffers.turn:
            n = buffers.load_from(source, first, targets=True)
            x, target, rows = buffers.x[:n], buffers.target[:n], buffers.rows[:n]
            try:
                loss, right = engine.evaluate_step(x, target, n)
                counts = engine.counted()
                if metrics:
                    engine.predict_step(x, n, out[:n])
            except NonFiniteError as error:
                where = f"batch {buffers.batch_number(first)} of the evaluation"
                raise with_row(error, source, rows, {"x": x, "y": target}, where) from error
            labelled += buffers.counted(n, ignored)
            for metric in metrics.values():
                metric.add(out[:n], target)
        loss_sum += loss * counts
        counted += counts
        correct += right
        if stop():
            return None
    accuracy = correct / labelled if labels and labelled else None
    loss = loss_sum / counted if counted else 0.0
    figures = {name: metric.value() for name, metric in metrics.items()}
    return Evaluation(loss, accuracy, source.count, correct, figures, counted)


def predict_source(
    engine: Engine, buffers: Buffers, source: Source, shape: tuple[int, ...]
) -> Iterator[NDArray[np.float32]]:
    """Yield the outputs, shape (n, *shape), batch by batch; each array is new."""
    for first in range(0, source.count, buffers.batch_size):
        with buffers.turn:
            n = buffers.load_from(source, first, targets=False)
            out = np.zeros((n, *shape), np.float32)
            x, rows = buffers.x[:n], buffers.rows[:n]
            try:
                engine.predict_step(x, n, out)
            except NonFiniteError as error:
                bad = rows[~np.isfinite(out.reshape(n, -1)).all(axis=1)]
                output = f"; the output of row {bad[0]} (counted from 0)" if len(bad) else ""
                where = f"batch {buffers.batch_number(first)} of the prediction{output}"
                raise with_row(error, source, rows, {"x": x}, where) from error
        yield out
