"""`armtrain.plan`: run the stages in order and nothing else.

Model, loss and optimiser become a training program (passes), the program lifetimes, lifetimes a
packing problem, its solution addresses, and all of it a plan. A budget is compared at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from armtrain.board.profile import load_board
from armtrain.ir.program import Program
from armtrain.memory.budget import parse_bytes
from armtrain.nn.module import Module
from armtrain.passes.pipeline import compile_program
from armtrain.planfile.assemble import assemble
from armtrain.planfile.plan import Plan
from armtrain.planfile.refuse import Variant, does_not_fit

__all__ = ["plan"]


def plan(
    net: Module,
    *,
    input_shape: Sequence[int],
    batch_size: int,
    loss: Any,
    optimizer: Any,
    clip_norm: float | None = None,
    budget: int | str | None = None,
    board: str = "generic",
    threads: int | None = None,
    param_groups: Sequence[Mapping[str, Any]] | None = None,
    train_only: str | Sequence[str] | None = None,
) -> Plan:
    """Compile a model into a plan: its training program and its memory layout.

    Parameters
    ----------
    net : Module
    input_shape : sequence of int
        Shape of one sample as in torch, without the batch: (1, 28, 28) or (784,).
    batch_size : int
        Samples per step; smaller batches run too.
    loss : Module
        `nn.CrossEntropyLoss()` or `nn.MSELoss()`.
    optimizer : Optimizer
        `optim.SGD(...)` or `optim.Adam(...)`.
    clip_norm : float, optional
        Largest norm of all gradients together.
    budget : int or str, optional
        Bytes that the arena may have: 1000000, '512 KiB', '2 MiB', '1.5 GB'.
    board : str
        Id of a board profile or path of a profile file.
    threads : int, optional
        Threads to plan for; default is the board's.
    param_groups : sequence of mapping, optional
        Parameters with options of their own, as in torch.optim.
    train_only : str or sequence of str, optional
        Patterns of the parameter names to train; all others are frozen.

    Returns
    -------
    Plan

    Raises
    ------
    ShapeError
        When layers do not go together.
    DoesNotFitError
        When the arena is larger than the budget, with what would fit.
    """
    budget_bytes = None if budget is None else parse_bytes(budget)
    profile = load_board(board)
    planned_threads = profile.threads if threads is None else threads

    def compile_variant(variant: Variant) -> Program:
        return compile_program(
            net,
            input_shape=tuple(input_shape),
            batch_size=variant.batch_size or batch_size,
            loss=loss,
            optimizer=optimizer,
            clip_norm=clip_norm,
            board=profile.id,
            threads=variant.threads or planned_threads,
            param_groups=param_groups,
            train_only=variant.train_only or train_only,
        )

    data = assemble(compile_variant(Variant()), budget_bytes=budget_bytes)
    if budget_bytes is not None and data.arena_bytes > budget_bytes:
        raise does_not_fit(data, budget_bytes, compile_variant)
    return Plan.of(data)
