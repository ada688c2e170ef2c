"""Stopping between two steps: Ctrl-C must not interrupt a step half done.

While a run is guarded, the first SIGINT or SIGTERM only raises a flag that the loop reads after
each step. When the guard ends, the previous handlers are back and the signal takes its normal
course. A second one takes its normal course at once. What was ignored before stays ignored: that is
how a shell's `&` and `nohup` start what shall outlive them.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["StopGuard"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopGuard:
    """Context manager; `requested` becomes true when the run shall stop.

    Only the main thread receives signals; elsewhere the guard does nothing.
    """

    def __init__(self) -> None:
        """Make an inactive guard."""
        self.requested = False
        self._received: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopGuard:
        """Take over the signals that are not ignored."""
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back and deliver the remembered one."""
        self._restore()
        if self._received is not None and error is None:
            signal.raise_signal(self._received)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: the first time remember it, then step aside."""
        self.requested = True
        self._received = number
        self._restore()

    def _restore(self) -> None:
        """Put the previous handlers back."""
        for number, handler in self._previous.items():
            if handler is not None:
                signal.signal(number, handler)
        self._previous = {}
