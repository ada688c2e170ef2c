"""From a program to placed storages: lifetimes, packing problem, addresses, in that order."""

from __future__ import annotations

from armtrain.dtypes import align_up
from armtrain.ir.program import Program
from armtrain.memory import Buffer, Problem, Solution, pack
from armtrain.planfile.data import PlanData
from armtrain.schedule.lifetime import Lifetimes, lifetimes_of

__all__ = ["assemble", "problem_of"]


def problem_of(lifetimes: Lifetimes) -> Problem:
    """Return the packing problem: one buffer per storage, sizes rounded up to the alignment."""
    items = lifetimes.items
    return Problem(
        tuple(Buffer(i.first, i.last, align_up(max(1, i.nbytes))) for i in items),
        tuple(str(i.storage) for i in items),
    )


def assemble(
    program: Program, *, budget_bytes: int | None = None, solution: Solution | None = None
) -> PlanData:
    """Return the plan content of `program`.

    Parameters
    ----------
    program : Program
    budget_bytes : int, optional
        Recorded as it is; whether the arena obeys it is the caller's question.
    solution : Solution, optional
        Addresses to use instead of packing.
    """
    lifetimes = lifetimes_of(program)
    solution = solution or pack(problem_of(lifetimes))
    return PlanData(
        program,
        lifetimes,
        solution.offsets,
        solution.height_bytes,
        solution.lower_bound_bytes,
        solution.proved_minimum_bytes,
        budget_bytes,
        solution.height_bytes,
        solution.height_bytes,
        solution.method,
        solution.nodes,
    )
