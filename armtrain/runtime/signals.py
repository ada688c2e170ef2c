"""Stopping between two steps: Ctrl-C must not interrupt a step half done.

While a run is guarded, the first SIGINT, SIGTERM or SIGHUP (a lost connection) only raises a
flag that the loop reads after each step. When the guard ends, the previous handlers are back and
the signal takes its normal course. A second one of the same kind takes its normal course at once;
one of each kind, as when a service manager and Ctrl-C stop a run together, is one wish to stop.
What was ignored before stays ignored: that is how a shell's `&` and `nohup` start what shall
outlive them.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["StopGuard"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
        """Handle a signal: the first of its kind is remembered, the next finds the old handler.

        The other kind's handler stays: that signal may wait for it already, and would be dropped
        with a remark about a race.
        """
        self.requested = True
        self._received = self._received or number
        self._put_back(number, self._previous.pop(number, None))

    def _restore(self) -> None:
        """Put the previous handlers back."""
        while self._previous:  # a signal that comes meanwhile takes its own
            self._put_back(*self._previous.popitem())

    @staticmethod
    def _put_back(number: int, handler: Any) -> None:
        """Set a handler, but for one that Python does not know."""
        if handler is not None:
            signal.signal(number, handler)
