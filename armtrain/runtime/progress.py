"""What a person sees while training runs: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from armtrain.runtime.history import EpochRecord
from armtrain.words import ARGUMENTS, Words

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["Bar", "Lines", "Progress", "Quiet", "default_progress", "words_of"]

_SIZE_OF_TERMINAL: dict[str, Any] = {"dynamic_ncols": True}
# A serial console says that it has neither rows nor columns; the bar would be as small.
_SIZE_OF_CONSOLE: dict[str, Any] = {"ncols": 80, "nrows": 24}


class Progress(Protocol):
    """Receiver of a run's events."""

    def begin(self, epoch: int, epochs: int, samples: int, done: int) -> None:
        """Start epoch `epoch` of `epochs`; `done` of `samples` are already trained."""

    def step(self, n: int, loss: float) -> None:
        """Count a step on `n` samples that gave `loss`."""

    def end(self, epochs: int, record: EpochRecord) -> None:
        """Show `record`: its epoch is complete."""

    def note(self, text: str) -> None:
        """Show a remark."""

    def clear(self) -> None:
        """Leave the terminal on a fresh line; training stops."""


class Quiet:
    """Shows nothing but remarks, which go to `stream` (None: nowhere).

    Attributes
    ----------
    words : mapping
        How whoever reads the remarks writes what they offer.
    """

    def __init__(self, stream: TextIO | None = None, words: Words = ARGUMENTS) -> None:
        """Show remarks on `stream`."""
        self._stream = stream
        self.words = words

    def begin(self, epoch: int, epochs: int, samples: int, done: int) -> None:
        """Show nothing."""

    def step(self, n: int, loss: float) -> None:
        """Show nothing."""

    def end(self, epochs: int, record: EpochRecord) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show a remark; a stream that fails does not stop a run."""
        if self._stream is not None:
            with suppress(OSError):
                print(text, file=self._stream, flush=True)

    def clear(self) -> None:
        """Show nothing."""


class Lines(Quiet):
    """One line an epoch."""

    def __init__(self, stream: TextIO | None = None, words: Words = ARGUMENTS) -> None:
        """Write to `stream`, the standard output by default."""
        super().__init__(stream or sys.stdout, words)

    def end(self, epochs: int, record: EpochRecord) -> None:
        """Show the epoch."""
        self.note(f"epoch {record.epoch}/{epochs}  {record}")


class Bar(Lines):
    """A moving bar on the error stream while an epoch runs, then its line."""

    def __init__(self, stream: TextIO | None = None, words: Words = ARGUMENTS) -> None:
        """Write lines to `stream`, the standard output by default."""
        # Here, not at the first epoch: loading it must not count as memory of the training.
        from tqdm import tqdm

        super().__init__(stream, words)
        self._tqdm = tqdm
        self._bar: tqdm[Any] | None = None

    def begin(self, epoch: int, epochs: int, samples: int, done: int) -> None:
        """Open the bar."""
        self.clear()
        self._bar = self._tqdm(
            total=samples,
            initial=done,
            desc=f"epoch {epoch}/{epochs}",
            unit=" samples",
            leave=False,
            **_SIZE_OF_TERMINAL if _columns(sys.stderr) else _SIZE_OF_CONSOLE,
        )

    def step(self, n: int, loss: float) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.set_postfix_str(f"loss {loss:.4f}", refresh=False)
            self._bar.update(n)

    def end(self, epochs: int, record: EpochRecord) -> None:
        """Replace the bar by the epoch's line."""
        self.clear()
        super().end(epochs, record)

    def note(self, text: str) -> None:
        """Show a remark above the bar."""
        if self._bar is not None:
            self._bar.clear()
        super().note(text)

    def clear(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _columns(stream: TextIO) -> int:
    """Return the width of a terminal, 0 if it does not know."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


def default_progress(words: Words = ARGUMENTS) -> Progress:
    """Return a bar when a person watches the error stream, lines otherwise."""
    return (Bar if sys.stderr.isatty() else Lines)(words=words)


def words_of(progress: Progress) -> Words:
    """Return how the reader of a receiver's remarks writes; a receiver of the user reads Python."""
    words: Words = getattr(progress, "words", ARGUMENTS)
    return words
