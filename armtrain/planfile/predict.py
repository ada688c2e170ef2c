"""What a plan predicts: the rates of its board, and seconds and extra work of a training step."""

from __future__ import annotations

from armtrain.board.cores import load_cores
from armtrain.board.profile import Board
from armtrain.board.schema import read_table
from armtrain.errors import PlanError
from armtrain.ir.cost import Rates, total_seconds, work_of
from armtrain.ir.program import Phase, Program, Step
from armtrain.limits import MAX_FLOAT, MIN_FLOAT

__all__ = ["ASSUMED", "extra_work", "rates_from_json", "rates_of", "step_seconds"]

ASSUMED = Rates(6.0, 4000.0, "assumed")
"""Rates of a board that says nothing of its processor: a core such as Cortex-A72 at 1.5 GHz."""
_REACHED = 0.5
"""Part of its best rate that a core reaches in the products of a training step."""
_READ_AND_WRITTEN = 2
"""Bytes that pass for each byte that a board's copy rate counts."""


def rates_of(board: Board) -> Rates:
    """Return the rates of a board: its own, else derived from its first cores, else assumed."""
    if board.compute is not None:
        products, passes = board.compute.product_gflop_s, board.compute.pass_mb_s
        basis = products.source.partition(":")[0]
        return Rates(float(products.value), float(passes.value), basis)
    if not board.clusters:
        return ASSUMED
    cluster = board.clusters[0]
    best = cluster.clock_mhz.value * load_cores()[cluster.core].fp32_flop_per_cycle.value / 1000
    copies = cluster.copy_mb_s
    passes_mb_s = ASSUMED.pass_mb_s if copies is None else _READ_AND_WRITTEN * copies.value
    return Rates(_REACHED * best, float(passes_mb_s), "derived")


def rates_from_json(value: object) -> Rates:
    """Return the rates in a plan's description.

    Raises
    ------
    PlanError
        When an entry is missing, unknown, of a wrong type, or no positive number.
    """
    rates = read_table(Rates, value, "meta entry 'rates'")
    for name in ("product_gflop_s", "pass_mb_s"):
        if not MIN_FLOAT <= getattr(rates, name) <= MAX_FLOAT:
            raise PlanError(
                f"meta entry 'rates': {name} is {getattr(rates, name)}, no positive number"
            )
    return rates


def _training(program: Program) -> list[Step]:
    """Return the steps of a training step."""
    return [step for step in program.steps if step.phase == Phase.TRAIN]


def step_seconds(program: Program, rates: Rates) -> float:
    """Return the predicted seconds of a training step at the planned batch."""
    return total_seconds(_training(program), program.tensors, rates, program.threads)


def extra_work(program: Program) -> tuple[int, float]:
    """Return how many operations run again, and their float operations as a part of all others.

    Steps of the forward pass that come after the loss make values again.
    """
    steps = _training(program)
    loss = next((i for i, step in enumerate(steps) if step.kind == "L"), len(steps))
    again = [step for step in steps[loss:] if step.kind == "F"]
    extra = sum(work_of(step, program.tensors).flops for step in again)
    total = sum(work_of(step, program.tensors).flops for step in steps)
    return len(again), extra / max(1, total - extra)
