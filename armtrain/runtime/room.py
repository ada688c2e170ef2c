"""Memory that this front end takes beside the arena, refused before the first step when it lacks.

The engine counts the arena and what the kernel needs for it. A kill for lack of memory comes
without a word, so everything else whose size is known is counted and touched early too.
"""

from __future__ import annotations

from math import prod
from typing import Any

from armtrain.data import Source
from armtrain.data.source import TableSource
from armtrain.errors import DoesNotFitError
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Program, Role

__all__ = ["OPEN_BYTES", "WORK_BYTES", "buffer_bytes", "index_bytes", "take_room"]

OPEN_BYTES = 2 << 20
"""From opening the engine to the first step: modules, readers, progress. Measured: 0.8 MB."""

WORK_BYTES = 1 << 20
"""From the first step on: objects of the loop, checkpoint, log. Measured: 0.1 MB."""


def buffer_bytes(program: Program) -> int:
    """Return the bytes of `Buffers`: one batch of inputs, targets (4-byte elements) and rows."""
    target = next(t for t in program.tensors if t.role is Role.TARGET)
    sample = 4 * prod(program.input_shape) + 4 * prod(target.layout.shape[1:]) + 8
    return program.batch_size * sample


def index_bytes(program: Program) -> int:
    """Return the bytes for the ranges of indices: a number and a tuple's entry, as it grows."""
    tables = any(step.op is OpCode.EMBEDDING_FWD for step in program.steps)
    return 16 * prod(program.input_shape) if tables else 0


def take_room(module: Any, batch_size: int, *sources: Source | None, beside_bytes: int = 0) -> None:
    """Refuse what does not fit and touch what reading batches of the sources takes.

    Parameters
    ----------
    module : module
        The engine's.
    beside_bytes : int
        What the caller takes beside that.

    Raises
    ------
    DoesNotFitError
        Less is left than conversion and work need.
    """
    tables = [source for source in sources if isinstance(source, TableSource)]
    conversion = beside_bytes + sum(table.scratch_bytes(batch_size) for table in tables)
    available, limit = module.memory_available()
    if conversion + WORK_BYTES > available:
        raise DoesNotFitError(
            f"beside the arena, batches need {conversion} bytes more and Python's work {WORK_BYTES}"
            f", but {limit} leaves {available}: plan with a smaller batch, or raise the limit"
        )
    for table in tables:
        table.touch(batch_size)
