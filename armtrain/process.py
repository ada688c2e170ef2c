"""What belongs to one process: a copy made by fork has neither its threads nor its turns.

The engine's threads do not exist in a forked child, and a lock that another thread held while
the process was copied stays locked there for ever.
"""

from __future__ import annotations

import os

from armtrain.errors import EngineError

__all__ = ["check_process"]


def check_process(owner: int) -> None:
    """Refuse the use of an engine outside the process `owner`, which opened it.

    Raises
    ------
    EngineError
        This is another process: a fork copied it, threads and turns stayed behind.
    """
    here = os.getpid()
    if here != owner:
        raise EngineError(
            f"the engine was opened in process {owner}, this is process {here}, a fork of it that "
            "has none of its threads: make a Trainer here, in the child; start processes with "
            "multiprocessing's method 'spawn'; or use threads, which can share a Trainer"
        )
