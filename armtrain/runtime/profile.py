"""How long each step of a training program takes here, beside what it has to do at least."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from armtrain.ir.cost import product_flops, step_bytes
from armtrain.ir.program import Phase
from armtrain.runtime.batches import Buffers
from armtrain.runtime.engine import engine_module, expected_by

if TYPE_CHECKING:
    from armtrain.planfile.plan import Plan

__all__ = ["Profile", "Work", "by_operation", "profile_steps"]

_DATA_SEED = 0


@dataclass(frozen=True)
class Work:
    """Time and work of a step, or of all steps of an operation.

    Attributes
    ----------
    name : str
        Operation, in small letters.
    where : str
        Layer of a step.
    steps : int
    seconds : float
        Of one training step of the network, wall clock.
    flops, nbytes : int
        As `armtrain.ir.cost` counts them.
    """

    name: str
    where: str
    steps: int
    seconds: float
    flops: int
    nbytes: int


@dataclass(frozen=True)
class Profile:
    """What was measured.

    Attributes
    ----------
    kernel_level : str
    threads : int
    works : tuple of Work
        Every step of the training phase in order.
    """

    kernel_level: str
    threads: int
    works: tuple[Work, ...]

    @property
    def seconds(self) -> float:
        """All steps together; what comes between them is not in it."""
        return sum(work.seconds for work in self.works)


def profile_steps(
    plan: Plan, repeat: int, *, threads: int = 0, kernel_level: str | None = None
) -> Profile:
    """Train a batch of random data some times and return median times of each step.

    Parameters
    ----------
    plan : Plan
    repeat : int
        Training steps that are measured, after one that is not.
    threads : int
        0 for the smaller of the planned number and the usable processors.
    kernel_level : str, optional
        The best of this processor when None.
    """
    engine = engine_module().Engine(
        plan.to_bytes(), threads=threads, kernel_level=kernel_level, seed=_DATA_SEED
    )
    engine.initialize()
    buffers = Buffers(plan.batch_size, expected_by(engine, plan.program))
    for sample in range(plan.batch_size):
        target = buffers.target[sample : sample + 1]
        engine.random_sample(_DATA_SEED, sample, buffers.x[sample], target)
    engine.train_step(buffers.x, buffers.target, plan.batch_size)
    times = np.zeros((repeat, len(plan.program.steps)), np.uint64)
    for row in times:
        engine.train_step(buffers.x, buffers.target, plan.batch_size, row)
    program, info = plan.program, engine.info()
    engine.close()
    works = tuple(
        Work(
            step.op.name.lower(),
            step.layer,
            1,
            1e-9 * median(times[:, index].tolist()),
            product_flops(step, program.tensors),
            step_bytes(step, program.tensors),
        )
        for index, step in enumerate(program.steps)
        if step.phase is Phase.TRAIN
    )
    return Profile(info["kernel_level"], info["threads"], works)


def by_operation(works: Iterable[Work]) -> tuple[Work, ...]:
    """Return one entry for each operation, that with most time first."""
    sums: dict[str, Work] = {}
    for work in works:
        one = sums.get(work.name, Work(work.name, "", 0, 0.0, 0, 0))
        sums[work.name] = Work(
            work.name,
            "",
            one.steps + work.steps,
            one.seconds + work.seconds,
            one.flops + work.flops,
            one.nbytes + work.nbytes,
        )
    return tuple(sorted(sums.values(), key=lambda w: (-w.seconds, w.name)))
