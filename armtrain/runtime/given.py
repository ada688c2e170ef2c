"""What a run is given, as sums in its checkpoints, so that a resume can tell what is other.

`armtrain-run` computes the same sums (kernels/run/given.c).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from armtrain.data import Source
from armtrain.optim.lr_scheduler import LRScheduler
from armtrain.runtime.batches import Buffers
from armtrain.runtime.progress import Progress

if TYPE_CHECKING:
    from armtrain._engine import Engine

__all__ = ["compare_given", "data_crc32", "schedule_crc32"]

_SAMPLES = 16
"""Samples that are compared, evenly spread: enough for other data, cheap for large ones."""


def schedule_crc32(schedule: Sequence[LRScheduler]) -> int:
    """Return the CRC-32 of words, options and times of all schedules; never 0."""
    crc = 0
    for part in schedule:
        values, times = part.values(), getattr(part, "milestones", ())
        numbers = (*values, *times, part.interval == "step")
        fields = struct.pack(f"<{len(values)}d{len(times)}Q?", *numbers)
        crc = zlib.crc32(part.word.encode() + fields, crc)
    return crc or 1


def data_crc32(source: Source, buffers: Buffers) -> int:
    """Return the CRC-32 of some samples with their targets, 0 if one is not finite."""
    count, crc = min(_SAMPLES, source.count), 0
    with buffers.turn:
        x, target = buffers.x[:1], buffers.target[:1]
        for i in range(count):
            buffers.rows[0] = i * source.count // count
            buffers.load(source, 1)
            if not (np.isfinite(x).all() and np.isfinite(target).all()):
                return 0
            crc = zlib.crc32(target.data, zlib.crc32(x.data, crc))
    return crc or 1


def compare_given(
    engine: Engine,
    schedule: Sequence[LRScheduler],
    data: int,
    resumed: bool,
    progress: Progress,
) -> None:
    """Note for the checkpoints to come what this run is given; tell what a resumed one lacks.

    `data` is what `data_crc32` returned.
    """
    memory, scale = engine.get_monitor(), engine.get_state()["learning_rate_scale"]
    new = {"schedule_crc32": schedule_crc32(schedule), "data_crc32": data}
    other = {name for name, crc in new.items() if resumed and 0 not in (memory[name], crc)}
    other = {name for name in other if memory[name] != new[name]}
    if not schedule and scale != 1.0:
        progress.note(
            f"note: no schedule is given, learning rates stay at {scale:g} times the plan's"
        )
    elif "schedule_crc32" in other:
        progress.note(
            "note: the checkpoint was written under another schedule (or none) than this run's, "
            "which holds from here on: the weights will be those of neither run alone"
        )
    if "data_crc32" in other:
        progress.note(
            f"note: the training data are not those of the checkpoint (up to {_SAMPLES} samples "
            "were compared): the run goes on with the new ones"
        )
    engine.set_monitor(memory | new)
