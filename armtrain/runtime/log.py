"""The training log: one JSON object a line, one line an epoch.

A resumed run continues the file of the interrupted one. Lines of epochs that will be trained
again, and a last line that a power failure cut short, are dropped first, so that the log of a
run that was interrupted any number of times has the lines of an uninterrupted one.
"""

from __future__ import annotations

import json
import os
from types import TracebackType

from armtrain.atomic import write_bytes
from armtrain.errors import StorageError
from armtrain.files import explain, path_text
from armtrain.runtime.history import EpochRecord

__all__ = ["JsonLog"]


class JsonLog:
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
            self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115 - closed by __exit__
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

    def __enter__(self) -> JsonLog:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._file.close()


def _lines_until(path: str, epochs_done: int) -> list[bytes]:
    """Return the whole lines of a log that belong to finished epochs."""
    kept = []
    with open(path, "rb") as file:
        for line in file:
            try:
                epoch = json.loads(line)["epoch"]
            except (ValueError, KeyError, TypeError):
                continue
            if line.endswith(b"\n") and isinstance(epoch, int) and epoch <= epochs_done:
                kept.append(line)
    return kept
