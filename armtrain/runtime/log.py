"""The training log: one JSON object a line, one line an epoch.

A resumed run continues the file of the interrupted one. Lines of epochs that will be trained
again, and a last line that a power failure cut short, are dropped first, so that the log of a
run that was interrupted any number of times has the lines of an uninterrupted one.
"""

from __future__ import annotations

import json
import os

from armtrain.atomic import write_bytes
from armtrain.closing import Closing
from armtrain.errors import StorageError
from armtrain.files import explain, path_text
from armtrain.runtime.history import EpochRecord

__all__ = ["JsonLog"]

_START = b'{"epoch"'


class JsonLog(Closing):
    """An open log file."""

    def __init__(self, path: str | os.PathLike[str], epochs_done: int) -> None:
        """Open `path`; keep the lines of the first `epochs_done` epochs, 0 starts anew.

        Raises
        ------
        StorageError
            The file cannot be written.
        """
        self._path = path_text(path)
        try:
            if os.path.isfile(self._path):
                kept = _lines_until(self._path, epochs_done)
                write_bytes(self._path, b"".join(kept))
            # Unbuffered: what a full disk refuses must not be written again when it closes.
            self._file = open(self._path, "ab", buffering=0, opener=_open_now)  # noqa: SIM115
        except OSError as error:
            raise StorageError(f"cannot write the log {self._path}: {explain(error)}") from error

    def write(self, record: EpochRecord) -> None:
        """Append a line and force it to the medium; raises StorageError."""
        try:
            line = json.dumps(record.to_json_dict()).encode() + b"\n"
            while line:
                line = line[self._file.write(line) :]
            if os.path.isfile(self._path):
                os.fsync(self._file.fileno())
        except OSError as error:
            raise StorageError(f"cannot write the log {self._path}: {explain(error)}") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _open_now(path: str, flags: int) -> int:
    """Open at once: a pipe that nobody reads is refused and not waited for."""
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    os.set_blocking(descriptor, True)
    return descriptor


def _lines_until(path: str, epochs_done: int) -> list[bytes]:
    """Return the whole lines of a log that belong to finished epochs.

    Dropping the others must not empty a file that was never a log. A power failure may leave
    zeros, or the beginning of a first line.
    """
    kept = []
    with open(path, "rb") as file:
        head = file.read(len(_START))
        if head[:1] != b"\0" and not _START.startswith(head):
            raise StorageError(
                f"{path} exists and is no training log, which starts with {_START.decode()}: "
                "choose another file name"
            )
        file.seek(0)
        for line in file:
            try:
                epoch = json.loads(line)["epoch"]
            except (ValueError, KeyError, TypeError):
                continue
            if line.endswith(b"\n") and isinstance(epoch, int) and epoch <= epochs_done:
                kept.append(line)
    return kept
