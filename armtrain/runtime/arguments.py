"""Checks of what users pass to a `Trainer`, with messages that say what is accepted."""

from __future__ import annotations

import os
from typing import Any

from armtrain.errors import ArgumentError
from armtrain.limits import MAX_EPOCHS
from armtrain.runtime.loop import FitOptions
from armtrain.runtime.progress import Progress, Quiet, default_progress
from armtrain.values import as_integer, integer, truth

__all__ = ["fit_options", "path_of", "progress_of"]


def path_of(what: str, value: Any) -> str:
    """Return a path as text.

    Raises
    ------
    ArgumentError
        It is neither text nor path-like.
    """
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str):
        raise ArgumentError(f"{what} needs a path, as a str or pathlib.Path, got {value!r:.80}")
    return path


def fit_options(
    epochs: Any, checkpoint: Any, checkpoint_every: Any, resume: Any, log: Any
) -> FitOptions:
    """Return the checked options of one run.

    Raises
    ------
    ArgumentError
        One is of the wrong kind or out of range, or two contradict each other.
    """
    if as_integer(epochs) is None and hasattr(epochs, "__len__") and not isinstance(epochs, str):
        raise ArgumentError(
            f"epochs needs an integer, got a {type(epochs).__name__}; data and targets go "
            "together, as in fit((x, y), epochs=3)"
        )
    options = FitOptions(
        integer("epochs", epochs, 0, MAX_EPOCHS),
        None if checkpoint is None else path_of("checkpoint", checkpoint),
        _every(checkpoint_every),
        truth("resume", resume),
        None if log is None else path_of("log", log),
    )
    if options.checkpoint is None and (options.resume or options.checkpoint_every):
        raise ArgumentError("resume and checkpoint_every need a checkpoint directory")
    return options


def _every(steps: Any) -> int | None:
    """Return the steps between two checkpoints, None for none within an epoch."""
    return None if steps is None else integer("checkpoint_every", steps, 1, MAX_EPOCHS)


def progress_of(progress: Progress | bool | None) -> Progress:
    """Return the receiver of a run's events."""
    if progress is None or progress is True:
        return default_progress()
    if progress is False:
        return Quiet()
    if not hasattr(progress, "note") or not hasattr(progress, "step"):
        raise ArgumentError(
            f"progress needs True, False, None or a receiver of events, got {progress!r:.80}"
        )
    return progress
