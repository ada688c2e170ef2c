"""`armtrain.plan`: run the stages in order and nothing else.

Model, loss and optimiser become a training program (passes), the program lifetimes, lifetimes a
packing problem, its solution addresses, and all of it a plan. A budget is compared at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from armtrain.board.media import load_medium
from armtrain.board.profile import load_board
from armtrain.ir.program import Program
from armtrain.limits import MAX_ARENA_BYTES
from armtrain.memory.budget import parse_bytes
from armtrain.nn.losses import Loss
from armtrain.nn.module import Module
from armtrain.optim import Optimizer
from armtrain.passes.pipeline import compile_program
from armtrain.planfile.assemble import assemble
from armtrain.planfile.plan import Plan
from armtrain.planfile.predict import rates_of
from armtrain.planfile.refuse import Compile, Variant, does_not_fit
from armtrain.values import truth

__all__ = ["plan"]


def plan(
    net: Module,
    *,
    input_shape: Sequence[int],
    batch_size: int,
    loss: Loss,
    optimizer: Optimizer,
    clip_norm: float | None = None,
    clip_value: float | None = None,
    budget: int | str | None = None,
    board: str = "generic",
    threads: int | None = None,
    storage: str | None = None,
    param_groups: Sequence[Mapping[str, Any]] | None = None,
    train_only: str | Sequence[str] | None = None,
    free_recompute: bool = True,
) -> Plan:
    """Compile a model into a plan: its training program and its memory layout.

    Parameters
    ----------
    net, loss, optimizer : Module, Loss, Optimizer
        As in torch: `nn.CrossEntropyLoss()`, `optim.SGD(lr=0.01, momentum=0.9)`.
    input_shape, batch_size : sequence of int, int
        Shape of one sample without the batch, as (1, 28, 28); samples per step, fewer run too.
    clip_norm, clip_value, param_groups, train_only
        Largest norm of all gradients together; or largest absolute value in one; groups of
        parameters with own options; patterns of parameters to train, all others are frozen.
    budget : int or str, optional
        Bytes that the arena may have: 1000000, '512 KiB', '1.5 GB'.
    board, threads : str, int
        Id or file of a board profile; threads to plan for, by default the board's.
    storage : str, optional
        Medium for swapping: an id of the board's storage table, or a profile file. It is recorded
        with its rates; no plan swaps yet, so it changes no address.
    free_recompute : bool
        Whether cheap values are made again in the backward pass instead of kept where that
        makes the arena smaller; the same bits either way.

    Raises
    ------
    ShapeError, DoesNotFitError
        Layers do not go together; the arena is above the budget (the text says what would fit).
    """
    profile = load_board(board)
    rates, again = rates_of(profile), truth("free_recompute", free_recompute)
    medium = None if storage is None else load_medium(storage, profile)
    compiled = partial(compile_program, net, input_shape=input_shape, loss=loss,
                       optimizer=optimizer, clip_norm=clip_norm, clip_value=clip_value,
                       board=profile.id, param_groups=param_groups,
                       recompute_at=rates if again else None)  # fmt: skip
    asked = Variant(batch_size, profile.threads if threads is None else threads)
    planned = _planned(_compiler(compiled, asked, train_only), budget)
    return replace(planned, storage=medium, rates=rates)


def _compiler(
    compiled: partial[Program], asked: Variant, train_only: str | Sequence[str] | None
) -> Compile:
    """Return the compiler of one model as a function of what a refusal may vary."""

    def compile_variant(variant: Variant) -> Program:
        return compiled(
            batch_size=variant.batch_size or asked.batch_size,
            threads=variant.threads or asked.threads,
            train_only=variant.train_only or train_only,
        )

    return compile_variant


def _planned(compile_variant: Compile, budget: int | str | None) -> Plan:
    """Place a program's storages and compare the arena with the budget."""
    budget_bytes = None if budget is None else parse_bytes(budget)
    data = assemble(compile_variant(Variant()), budget_bytes=budget_bytes)
    if data.arena_bytes > min(budget_bytes or MAX_ARENA_BYTES, MAX_ARENA_BYTES):
        raise does_not_fit(data, budget_bytes, compile_variant)
    return Plan.of(data)
