"""What a plan file holds, as plain values: a program, its lifetimes, addresses and bounds."""

from __future__ import annotations

from dataclasses import dataclass

from armtrain.board.media import Medium
from armtrain.ir.cost import Rates
from armtrain.ir.program import Program
from armtrain.schedule.lifetime import Lifetimes

__all__ = ["PlanData"]


@dataclass(frozen=True)
class PlanData:
    """The content of a plan file.

    Attributes
    ----------
    program : Program
    lifetimes : Lifetimes
        Storages in ascending id.
    offsets : tuple of int
        Bytes from the arena's start, one per item of `lifetimes`.
    arena_bytes : int
        Everything that the engine maps.
    lower_bound_bytes : int
        Most aligned bytes live at one step.
    proved_minimum_bytes : int
        Best proved lower bound.
    budget_bytes : int or None
        Budget that the user gave.
    unbudgeted_bytes : int
        Arena of the same program without a budget.
    floor_bytes : int
        Smallest feasible budget.
    method : str
        What found the addresses.
    nodes : int
        Placements that the packer tried.
    storage : Medium or None
        Medium that the user named for swapping.
    rates : Rates or None
        How fast the board computes.
    """

    program: Program
    lifetimes: Lifetimes
    offsets: tuple[int, ...]
    arena_bytes: int
    lower_bound_bytes: int
    proved_minimum_bytes: int
    budget_bytes: int | None
    unbudgeted_bytes: int
    floor_bytes: int
    method: str
    nodes: int
    storage: Medium | None = None
    rates: Rates | None = None
