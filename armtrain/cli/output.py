"""The standard output of a command: nobody may read it, and it may be full.

What cannot be written must not end in a traceback, hide behind exit code 0, or stop a training
that is under way.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TextIO, cast

from armtrain.errors import StorageError
from armtrain.files import explain

__all__ = ["Output", "output_as_errors", "watched_output"]

_OUTPUT, _ERRORS = 1, 2  # descriptors


class Output:
    """The standard output; remembers its first failure, which it raises again."""

    def __init__(self, stream: TextIO | None) -> None:
        """Write to `stream`, None when it was closed before the program started."""
        self._stream = stream
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        """Write to the stream."""
        try:
            if self._stream is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            return self._stream.write(text)
        except OSError as error:
            self.failure = self.failure or error
            raise self.failure from None

    def flush(self) -> None:
        """Flush the stream."""
        try:
            if self._stream is not None:
                self._stream.flush()
        except OSError as error:
            self.failure = self.failure or error
            raise self.failure from None

    def __getattr__(self, name: str) -> Any:
        """Be the stream in everything else."""
        return getattr(self._stream, name)

    def exit_code(self, code: int) -> int:
        """Return the exit code of a command that did its work with `code`; say what was lost.

        A reader that left early gets no message: it wanted no more.
        """
        with suppress(OSError):
            self.flush()
        if self.failure is None:
            return code
        if self._stream is sys.__stdout__ and self._stream is not None:
            # What is still buffered must not be tried again when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        if code:
            return code
        if isinstance(self.failure, BrokenPipeError):
            return 1
        message = f"armtrain: cannot write the standard output: {explain(self.failure)}"
        print(message, file=sys.stderr)
        return StorageError.exit_code


@contextmanager
def watched_output() -> Iterator[Output]:
    """Watch the standard output while the block runs."""
    _fill_standard_streams()
    output = Output(sys.stdout)
    with redirect_stdout(cast(TextIO, output)):
        yield output


@contextmanager
def output_as_errors() -> Iterator[None]:
    """Send the standard output to the standard error while the block runs.

    This holds for what Python prints and for the descriptor, which programs started by the block
    inherit.
    """
    _flush_own()
    kept = os.dup(_OUTPUT)
    os.dup2(_ERRORS, _OUTPUT)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _flush_own()
        os.dup2(kept, _OUTPUT)
        os.close(kept)


def _flush_own() -> None:
    """Let what is buffered reach the descriptor that it was printed for."""
    with suppress(OSError):
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()


def _fill_standard_streams() -> None:
    """Keep the next opened file from becoming a standard stream that was closed."""
    for descriptor, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the process
