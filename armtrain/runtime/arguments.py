"""Checks of what users pass to a `Trainer`, with messages that say what is accepted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.atomic import check_target
from armtrain.data.augment import augment_of
from armtrain.errors import ArgumentError, NonFiniteError, ShapeError
from armtrain.files import path_text, read_regular
from armtrain.limits import MAX_EPOCHS
from armtrain.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau, check_schedule
from armtrain.planfile.plan import Plan
from armtrain.runtime.callbacks import Callbacks
from armtrain.runtime.loop import FitOptions
from armtrain.runtime.progress import Progress, Quiet, default_progress
from armtrain.runtime.watch import WatchOptions
from armtrain.values import as_integer, integer, truth
from armtrain.words import MONITORS

__all__ = [
    "WatchArguments",
    "checked_state",
    "fit_options",
    "level_of",
    "path_of",
    "plan_of",
    "progress_of",
    "watch_options",
]

_IGNORED = ".num_batches_tracked"


def path_of(what: str, value: Any) -> str:
    """Return a path as text.

    Raises
    ------
    ArgumentError
        It is neither text nor path-like, or holds a NUL character.
    """
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str):
        raise ArgumentError(f"{what} needs a path, as a str or pathlib.Path, got {value!r:.80}")
    return path_text(path)


def level_of(kernel_level: Any) -> str | None:
    """Return a kernel level's name, or None for the processor's best."""
    if kernel_level is None:
        return None
    if not isinstance(kernel_level, str):
        raise ArgumentError(f"kernel_level needs the name of a level, got {kernel_level!r:.80}")
    if not (kernel_level.isascii() and kernel_level.isprintable()):
        raise ArgumentError(
            f"kernel_level {kernel_level!r:.80} holds a NUL or another character that no name of a "
            "level has; `armtrain doctor` lists them"
        )
    return kernel_level


def state_of(state: Any) -> Mapping[str, Any]:
    """Return a mapping of names to arrays."""
    if not isinstance(state, Mapping):
        raise ArgumentError(f"a state is a mapping of names to arrays, got {type(state).__name__}")
    wrong = [name for name in state if not isinstance(name, str)]
    if wrong:
        raise ArgumentError(f"a state's names are of type str, got {wrong[0]!r:.80}")
    return state


def float32_of(name: str, value: Any) -> NDArray[np.float32]:
    """Return a weight as the engine holds it; what float32 cannot hold becomes infinite."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ShapeError(f"'{name}' is no array of one shape: {error}") from error
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"'{name}' holds {array.dtype} values; float32 numbers are needed")
    with np.errstate(over="ignore"):
        return np.array(array, np.float32, order="C")


def checked_state(
    shapes: Mapping[str, tuple[int, ...]], state: Any
) -> dict[str, NDArray[np.float32]]:
    """Return the arrays of a state that has exactly the wanted names and shapes.

    Raises
    ------
    ShapeError
        A name is missing or unknown, or an array has another shape or holds no real numbers.
    NonFiniteError
        An array holds a NaN, an infinity or more than a float32 can.
    """
    given = {n: float32_of(n, a) for n, a in state_of(state).items() if not n.endswith(_IGNORED)}
    missing, unknown = sorted(shapes.keys() - given.keys()), sorted(given.keys() - shapes.keys())
    if missing or unknown:
        raise ShapeError(
            f"the state has {len(given)} arrays, the plan {len(shapes)}; missing: "
            f"{', '.join(missing[:5]) or 'none'}; unknown: {', '.join(unknown[:5]) or 'none'}"
        )
    for name, array in given.items():
        if array.shape != shapes[name]:
            raise ShapeError(f"'{name}' has shape {array.shape}, the plan {shapes[name]}")
        finite = np.isfinite(array)
        if not finite.all():
            raise NonFiniteError(
                f"'{name}' holds a NaN or an infinity at element {int(finite.argmin())} "
                "(counted from 0); it was not loaded"
            )
    return given


def plan_of(given: Plan | str | os.PathLike[str]) -> tuple[Plan, bytes]:
    """Return a plan, or that of a file, and the file's content."""
    if isinstance(given, Plan):
        return given, given.to_bytes()
    content = read_regular(path_of("plan", given), "the plan ")
    return Plan.from_bytes(content), content


def fit_options(
    epochs: Any,
    checkpoint: Any,
    checkpoint_every: Any,
    resume: Any,
    log: Any,
    schedule: Any,
    augment: Any = None,
    callbacks: Any = None,
    watch: WatchArguments | None = None,
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
    schedules = check_schedule(schedule)
    options = FitOptions(
        integer("epochs", epochs, 0, MAX_EPOCHS),
        None if checkpoint is None else path_of("checkpoint", checkpoint),
        _every(checkpoint_every),
        truth("resume", resume),
        None if log is None else path_of("log", log),
        schedules,
        augment_of(augment),
        Callbacks(callbacks),
        watch_options(watch or WatchArguments(), schedules),
    )
    if options.checkpoint is None and (options.resume or options.checkpoint_every):
        raise ArgumentError("resume and checkpoint_every need a checkpoint directory")
    return options


@dataclass(frozen=True)
class WatchArguments:
    """What a caller of `Trainer.fit` passed."""

    monitor: Any = None
    early_stopping: Any = None
    keep_best: Any = None
    validated: bool = False
    labels: bool = False


def watch_options(given: WatchArguments, schedules: tuple[LRScheduler, ...]) -> WatchOptions | None:
    """Return what to do with the epochs' values, None for nothing.

    Raises
    ------
    ArgumentError
        One is of the wrong kind or out of range, or what it needs is missing.
    """
    plateau = next((s for s in schedules if isinstance(s, ReduceLROnPlateau)), None)
    if (given.early_stopping, given.keep_best, plateau) == (None, None, None):
        if given.monitor is not None:
            raise ArgumentError(
                "monitor needs early_stopping, keep_best or a schedule ReduceLROnPlateau, which "
                "follow it"
            )
        return None
    preset = "val_loss" if given.validated else "train_loss"
    quantity = preset if given.monitor is None else given.monitor
    if not isinstance(quantity, str) or quantity not in MONITORS:
        raise ArgumentError(f"monitor needs one of {', '.join(MONITORS)}, got {quantity!r:.80}")
    if quantity.startswith("val_") and not given.validated:
        raise ArgumentError(f"monitor='{quantity}' needs validation data")
    if quantity == "val_accuracy" and not given.labels:
        raise ArgumentError(
            "monitor='val_accuracy' needs labels, this plan's targets are numbers: use 'val_loss'"
        )
    patience, keep = given.early_stopping, given.keep_best
    if patience is not None:
        what = "early_stopping, the epochs without a better value,"
        patience = integer(what, patience, 1, MAX_EPOCHS)
    if keep is not None:
        keep = path_of("keep_best", keep)
        check_target(keep)
    return WatchOptions(quantity, patience or 0, keep, plateau)


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
