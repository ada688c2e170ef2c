"""Augmentation at work: the engine's changes, applied to each batch of a training."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.data.augment import Augment

__all__ = ["Augmentation", "augmentation_of"]


class Augmentation:
    """Changes samples of one shape in a batch's buffer.

    Attributes
    ----------
    nbytes : int
        What it takes: one sample.
    """

    def __init__(self, module: Any, what: Augment, input_shape: tuple[int, ...], seed: int) -> None:
        """Check `what` against the shape; raises ShapeError.

        Parameters
        ----------
        module : module
            The engine's.
        """
        self._augmenter = module.Augmenter(
            input_shape, flip=what.flip, shift=what.shift, crop=what.crop, noise=what.noise
        )
        self._scratch = np.full(prod(input_shape), 0, np.float32)
        self._seed = seed
        self.nbytes = self._scratch.nbytes

    def change(self, epoch: int, rows: NDArray[np.uint64], x: NDArray[np.float32]) -> None:
        """Change the samples `rows` of epoch `epoch`, shape (n, ...), in place."""
        self._augmenter.apply(self._seed, epoch, rows, x, self._scratch)


def augmentation_of(
    module: Any, what: Augment | None, input_shape: tuple[int, ...], seed: int
) -> Augmentation | None:
    """Return the changes that a user asked for, None when there are none."""
    return None if what is None else Augmentation(module, what, input_shape, seed)
