"""Checkpoints of a run: one run in a directory, when to refuse it, how to resume from it.

The engine reads and writes the files; this is the policy around them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from armtrain.errors import DataError, StorageError
from armtrain.files import explain, path_text, takes_files
from armtrain.runtime.engine import RunState
from armtrain.runtime.progress import Progress, words_of
from armtrain.words import Words

if TYPE_CHECKING:
    from armtrain._engine import Engine

__all__ = ["KEEP", "check_writable", "hold_directory", "refuse_used", "resume"]

KEEP = 2
"""Checkpoints kept in a directory: the newest and one to fall back on."""


@contextmanager
def hold_directory(directory: str | os.PathLike[str], progress: Progress) -> Iterator[int]:
    """Make the checkpoint directory and keep every other run out of it while the block runs.

    Yields the directory's descriptor, for the engine to compare with what has the name later.

    The lock is the kernel's (flock of the directory itself, as in `armtrain-run`): it leaves no
    file and ends with the process, also when that is killed. Where the file system has no locks, a
    note says so and the run goes on.

    Raises
    ------
    StorageError
        The directory cannot be made, or another run holds it.
    """
    name = path_text(directory)
    try:
        os.makedirs(name, exist_ok=True)
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageError(f"cannot make the directory {name}: {explain(error)}") from error
    except RecursionError as error:  # makedirs calls itself for every part that is missing
        raise StorageError(
            f"cannot make the directory {name}: {name.count(os.sep)} levels are too many; use a "
            "shorter path"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        who = _holder(descriptor)
        os.close(descriptor)
        raise StorageError(
            f"another run{who} uses the checkpoint directory {name}: wait for it or stop it, or "
            "choose another directory"
        ) from error
    except OSError:
        progress.note(f"note: the file system of {name} has no locks: start no second run there")
    try:
        yield descriptor
    finally:
        with suppress(OSError):  # closing alone leaves it to children that were forked meanwhile
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    """Name the process that holds the lock, where the kernel tells."""
    file = os.fstat(descriptor)
    device = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    with suppress(OSError), open("/proc/locks", encoding="ascii", errors="replace") as locks:
        for line in locks:
            words = line.split()
            if "FLOCK" in words and "->" not in words and device in words:
                return f" (process {words[words.index(device) - 1]})"
    return ""


def check_writable(directory: str | os.PathLike[str]) -> None:
    """Refuse before the first step a directory that takes no checkpoints; raises StorageError."""
    try:
        takes_files(directory)
    except OSError as error:
        where = os.fspath(directory)
        raise StorageError(f"cannot write checkpoints into {where}: {explain(error)}") from error


def refuse_used(directory: str | os.PathLike[str], words: Words) -> None:
    """Refuse a directory that holds another run's checkpoints, in the caller's words.

    Raises
    ------
    StorageError
        It holds checkpoints: only the newest are kept, so that a new run would remove its own.
    """
    found = _files(directory)
    if found:
        raise StorageError(
            f"{os.fspath(directory)} holds {len(found)} checkpoint(s) of an earlier run, newest "
            f"{found[-1]}: continue it with {words['resume']}, or choose another directory"
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
) -> bool:
    """Load the newest intact checkpoint and say what was done; False if there is none.

    Raises
    ------
    StorageError
        There are checkpoints, but none is usable.
    DataError
        The checkpoint belongs to a run with another seed or other data.
    """
    if not _files(directory):
        progress.note(f"no checkpoint in {os.fspath(directory)} yet: starting from the beginning")
        return False
    note = engine.checkpoint_load(os.fspath(directory))
    for line in note.splitlines():
        if line.strip():
            progress.note(line.strip())
    state = RunState.of(engine)
    if state.seed != seed:
        way = words_of(progress)["seed"].format(state.seed)
        raise DataError(
            f"the checkpoint was made with seed {state.seed}, this run has seed {seed}; the order "
            f"of samples would differ: use {way}"
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
    return True
