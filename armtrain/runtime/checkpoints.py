"""Checkpoints of a run: when to refuse a directory, how to resume from it.

The engine reads and writes the files; this is the policy around them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from armtrain.errors import DataError, StorageError
from armtrain.runtime.engine import RunState
from armtrain.runtime.progress import Progress

if TYPE_CHECKING:
    from armtrain._engine import Engine

__all__ = ["KEEP", "prepare_directory", "resume"]

KEEP = 2
"""Checkpoints kept in a directory: the newest and one to fall back on."""


def prepare_directory(directory: str | os.PathLike[str], *, resuming: bool) -> None:
    """Make the checkpoint directory; refuse one that holds another run's checkpoints.

    Raises
    ------
    StorageError
        It cannot be made, or holds checkpoints and the run does not resume: only the newest
        are kept, so that the new run would remove its own.
    """
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the directory {directory}: {error.strerror}") from error
    found = _files(directory)
    if found and not resuming:
        raise StorageError(
            f"{os.fspath(directory)} holds {len(found)} checkpoint(s) of an earlier run, newest "
            f"{found[-1]}: continue it with resume (--resume), or choose another directory"
        )


def _files(directory: str | os.PathLike[str]) -> list[str]:
    """Return the names of checkpoint files, oldest first."""
    return sorted(p.name for p in Path(directory).glob("step-*.ckpt"))


def resume(
    engine: Engine,
    directory: str | os.PathLike[str],
    *,
    seed: int,
    n_train: int,
    progress: Progress,
) -> None:
    """Load the newest intact checkpoint, if there is any, and say what was done.

    Raises
    ------
    StorageError
        There are checkpoints, but none is usable.
    DataError
        The checkpoint belongs to a run with another seed or other data.
    """
    if not _files(directory):
        progress.note(f"no checkpoint in {os.fspath(directory)} yet: starting from the beginning")
        return
    note = engine.checkpoint_load(os.fspath(directory))
    for line in note.splitlines():
        if line.strip():
            progress.note(line.strip())
    state = RunState.of(engine)
    if state.seed != seed:
        raise DataError(
            f"the checkpoint was made with seed {state.seed}, this run has seed {seed}; the order "
            f"of samples would differ: use seed {state.seed} (--seed {state.seed})"
        )
    if state.n_train not in (0, n_train):
        raise DataError(
            f"the checkpoint was made with {state.n_train} training samples, the data have "
            f"{n_train}: use the same data, or start a new run in another directory"
        )
    progress.note(
        f"resumed at step {state.step}: {state.epoch} epoch(s) complete, "
        f"{state.position} samples into the next"
    )
