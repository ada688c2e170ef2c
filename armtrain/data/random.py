"""`random:` data: reproducible noise with labels, made sample by sample, for tests and timing.

The numbers come from the engine's counter-based generator, so that every program that trains a
plan sees the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.closing import Closing
from armtrain.data.columns import Rows
from armtrain.data.source import Expected

__all__ = ["RandomSource", "Sampler"]

Sampler = Callable[[int, int, NDArray[np.float32], NDArray[Any]], None]
"""sample(seed, index, x, target): write one sample into flat buffers."""


class RandomSource(Closing):
    """`count` samples that depend on (seed, index) alone.

    Attributes
    ----------
    trusted : bool
        They need no pre-flight.
    """

    trusted = True

    def __init__(self, sample: Sampler, count: int, seed: int) -> None:
        """Keep the engine's sampler; no data are stored."""
        self.name = f"random:samples={count},seed={seed}"
        self.count = count
        self.notes: tuple[str, ...] = ()
        self._sample = sample
        self._seed = seed
        self._unused = np.empty(0, np.float32)

    def check(self, expected: Expected, *, targets: bool) -> None:
        """Accept every plan; remember the size of the targets."""
        size = int(np.prod(expected.target_shape)) if not expected.n_classes else 1
        self._unused = np.empty(size, expected.target_dtype)

    def read(self, rows: Rows, x: NDArray[np.float32], target: NDArray[Any] | None) -> None:
        """Write samples into the caller's buffers."""
        for i, row in enumerate(rows.tolist()):
            out = self._unused if target is None else target[i : i + 1].reshape(-1)
            self._sample(self._seed, row, x[i].reshape(-1), out)

    def close(self) -> None:
        """Do nothing: there are no files."""
