"""The command `armtrain`, also `python -m armtrain`.

Loading the command line takes a moment; Ctrl-C in it ends the process as quietly as later.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

__all__ = ["main"]


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Say one line and end: there is nothing to undo yet."""
    os.write(2, b"armtrain: interrupted\n")
    os._exit(128 + number)


def main() -> int:
    """Run the command line of the process and return its exit code."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from armtrain.cli.main import main as run_command_line

    try:
        signal.signal(signal.SIGINT, before)
        return run_command_line()
    except KeyboardInterrupt:
        return _leave(signal.SIGINT, None)


if __name__ == "__main__":
    sys.exit(main())
