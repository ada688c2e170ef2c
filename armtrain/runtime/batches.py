"""Batches: the buffers between a data source and the engine, and passes without training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from armtrain.data import Expected, Source
from armtrain.runtime.history import Evaluation

if TYPE_CHECKING:
    from armtrain._engine import Engine

__all__ = ["Buffers", "evaluate_source", "predict_source"]


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
        """Allocate the buffers."""
        self.x = np.empty((batch_size, *expected.input_shape), np.float32)
        self.target: NDArray[Any] = np.empty(
            (batch_size, *expected.target_shape), expected.target_dtype
        )
        self.rows = np.empty(batch_size, np.uint64)

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

    def in_order(self, source: Source, *, targets: bool) -> Iterator[int]:
        """Read `source` batch by batch from its first sample; yield the size of each batch."""
        for first in range(0, source.count, self.batch_size):
            n = min(self.batch_size, source.count - first)
            self.rows[:n] = np.arange(first, first + n, dtype=np.uint64)
            self.load(source, n, targets=targets)
            yield n


def evaluate_source(
    engine: Engine, buffers: Buffers, source: Source, *, labels: bool, stop: Callable[[], bool]
) -> Evaluation | None:
    """Return mean loss and accuracy over all samples; None when `stop()` became true."""
    loss_sum, correct = 0.0, 0
    for n in buffers.in_order(source, targets=True):
        loss, right = engine.evaluate_step(buffers.x[:n], buffers.target[:n], n)
        loss_sum += loss * n
        correct += right
        if stop():
            return None
    accuracy = correct / source.count if labels else None
    return Evaluation(loss_sum / source.count, accuracy, source.count, correct)


def predict_source(
    engine: Engine, buffers: Buffers, source: Source, shape: tuple[int, ...]
) -> Iterator[NDArray[np.float32]]:
    """Yield the outputs, shape (n, *shape), batch by batch; each array is new."""
    for n in buffers.in_order(source, targets=False):
        out = np.empty((n, *shape), np.float32)
        engine.predict_step(buffers.x[:n], n, out)
        yield out
