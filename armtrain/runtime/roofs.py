"""What this processor reaches at best: multiply-adds in registers, bytes of a copy in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import thread_time

import numpy as np

from armtrain.runtime.engine import engine_module

__all__ = ["Roofs", "measure_roofs"]

_REPEATS = 7
_COPY_BYTES = 64 << 20
_FIRST_ROUNDS, _SECONDS = 1000, 0.02


@dataclass(frozen=True)
class Roofs:
    """Rates of one thread that no step exceeds.

    Attributes
    ----------
    flops_per_second : float
        Multiplications and additions at one kernel level, none of it from memory.
    bytes_per_second : float
        Read and written by a copy that is larger than caches.
    """

    flops_per_second: float
    bytes_per_second: float


def measure_roofs(level: str, copy_bytes: int = _COPY_BYTES) -> Roofs:
    """Return the best rates of some tries, by the thread's own time.

    Parameters
    ----------
    level : str
        Kernel level.
    copy_bytes : int
        Of what is copied; twice that is held in memory.

    Raises
    ------
    EngineError
        This processor lacks the level.
    """
    multiply_adds = partial(engine_module().multiply_adds, level)
    rounds = _FIRST_ROUNDS
    while _seconds(partial(multiply_adds, rounds)) < _SECONDS:
        rounds *= 2
    seconds = min(_seconds(partial(multiply_adds, rounds)) for _ in range(_REPEATS))
    flops = multiply_adds(rounds) / seconds
    source = np.ones(copy_bytes // 4, np.float32)
    target = np.zeros_like(source)
    seconds = min(_seconds(lambda: np.copyto(target, source)) for _ in range(_REPEATS))
    return Roofs(flops, 2 * source.nbytes / seconds)


def _seconds(work: Callable[[], object]) -> float:
    """Return this thread's seconds of some work."""
    began = thread_time()
    work()
    return max(thread_time() - began, 1e-9)
