"""What the steps of a phase have live: the peak that a choice between programs goes by."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from armtrain.dtypes import align_up
from armtrain.ir.program import PERSISTENT_ROLES, Role, Step, StorageId
from armtrain.passes.emit import Emitter
from armtrain.passes.inplace import share_storages

__all__ = ["live_bytes"]


def live_bytes(emitter: Emitter, steps: Sequence[Step]) -> list[int]:
    """Return the bytes that one phase's steps have live beside what persists, step by step.

    Parameters
    ----------
    emitter : Emitter
    steps : sequence of Step
        Of one phase, in execution order.
    """
    tensors = emitter.tensors
    storages = share_storages(tensors, emitter.roots, steps)
    ranges: dict[StorageId, list[int]] = {}
    for index, step in enumerate(steps):
        for operand in step.operands:
            if operand is None or tensors[operand].role in PERSISTENT_ROLES:
                continue
            t = tensors[operand]
            first = 0 if t.role in (Role.INPUT, Role.TARGET) else index
            last = len(steps) if t.role in (Role.METRIC, Role.OUTPUT) else index + 1
            held = ranges.setdefault(storages[operand], [first, last, 0])
            held[1] = max(held[1], last)
            held[2] = max(held[2], align_up(max(1, t.nbytes)))
    change = [0] * (len(steps) + 1)
    for first, last, size in ranges.values():
        change[first] += size
        change[last] -= size
    return list(accumulate(change))
