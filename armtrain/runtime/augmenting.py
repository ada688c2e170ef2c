"""Augmentation at work: the engine's changes, applied to each batch of a training."""

from __future__ import annotations

from dataclasses import asdict
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from armtrain.data.augment import Augment
from armtrain.data.source import Source
from armtrain.planfile.plan import Plan
from armtrain.runtime.engine import engine_module
from armtrain.runtime.room import take_room

if TYPE_CHECKING:
    from armtrain._engine import Engine

__all__ = ["Augmentation", "augmentation_with_room"]


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


def augmentation_with_room(
    engine: Engine, plan: Plan, what: Augment | None, seed: int, *sources: Source | None
) -> Augmentation | None:
    """Return the changes that a user asked for, if any, once batches and they have their memory.

    The engine is told of them.

    Raises
    ------
    ShapeError, DataError
        They make no sense for the samples, or noise would change indices.
    DoesNotFitError
        Memory lacks.
    """
    module, shape = engine_module(), plan.program.input_shape
    augmentation = None if what is None else Augmentation(module, what, shape, seed)
    engine.set_augment(**asdict(what) if what else {})
    taken = augmentation.nbytes if augmentation else 0
    take_room(module, plan.batch_size, *sources, beside_bytes=taken)
    return augmentation
