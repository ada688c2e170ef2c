"""The refusal of a plan above its budget: what it needs, what sets that, and what would fit.

Every alternative is planned before it is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from armtrain.errors import ArmtrainError, DoesNotFitError
from armtrain.ir.program import Phase, Program, Role
from armtrain.memory.bounds import lower_bound
from armtrain.planfile.account import accounts, peak_step
from armtrain.planfile.assemble import assemble, problem_of
from armtrain.planfile.data import PlanData
from armtrain.planfile.describe import peak_items
from armtrain.schedule.lifetime import lifetimes_of

__all__ = ["Variant", "does_not_fit"]

_ITEMS = 6


@dataclass(frozen=True)
class Variant:
    """A changed input of the compiler; None leaves it as it was."""

    batch_size: int | None = None
    threads: int | None = None
    train_only: str | None = None

    def __str__(self) -> str:
        """Return the options that ask for it."""
        parts = []
        if self.batch_size is not None:
            parts.append(f"--batch {self.batch_size}")
        if self.threads is not None:
            parts.append(f"--threads {self.threads}")
        if self.train_only is not None:
            parts.append(f"--train-only '{self.train_only}'")
        return " ".join(parts)


Compile = Callable[[Variant], Program]


def does_not_fit(data: PlanData, budget_bytes: int, compile_variant: Compile) -> DoesNotFitError:
    """Return the error for a plan above its budget.

    Parameters
    ----------
    data : PlanData
        The plan that does not fit.
    budget_bytes : int
    compile_variant : callable
        Compiles the same model with changed inputs.
    """
    figures = accounts(data)
    weights, state = figures["weights_bytes"], figures["optimizer_bytes"]
    lines = [
        f"the plan needs {data.arena_bytes:,d} B, the budget is {budget_bytes:,d} B: "
        f"{data.arena_bytes - budget_bytes:,d} B too much (no layout needs less than "
        f"{data.proved_minimum_bytes:,d} B; lower bound {data.lower_bound_bytes:,d} B)",
        f"always there: weights {weights:,d} B + optimizer state {state:,d} B = "
        f"{weights + state:,d} B, thread stacks {figures['stacks_bytes']:,d} B",
        f"at their peaks: batch of data {figures['input_bytes']:,d} B, activations "
        f"{figures['activations_peak_bytes']:,d} B, gradients "
        f"{figures['gradients_peak_bytes']:,d} B, workspace {figures['workspace_bytes']:,d} B",
        *_largest(data),
        *_ways_out(data.program, budget_bytes, compile_variant),
    ]
    return DoesNotFitError("\n".join(lines))


def _largest(data: PlanData) -> Iterator[str]:
    """Yield the largest buffers of the fullest step."""
    index = peak_step(data.lifetimes)
    step = data.program.steps[index]
    yield f"largest buffers at the fullest step {index} ({step.layer} {step.op.name.lower()}):"
    for name, item in peak_items(data, _ITEMS):
        yield f"  {item.nbytes:>14,d} B  {item.role.name.lower():10s} {name}"


def _arena(program: Program) -> int:
    """Return the arena that a program needs."""
    return assemble(program).arena_bytes


def _bound(program: Program) -> int:
    """Return the lower bound of a program's arena, without packing."""
    return lower_bound(problem_of(lifetimes_of(program)).buffers)


def _ways_out(program: Program, budget: int, compile_variant: Compile) -> Iterator[str]:
    """Yield what would fit, and the nearest thing when nothing does."""
    tried: list[tuple[Variant, int]] = []

    def attempt(variant: Variant) -> bool:
        try:
            changed = compile_variant(variant)
        except ArmtrainError:  # the variant is not possible, for example a batch of one
            return False
        size = _bound(changed)
        if size <= budget:
            size = _arena(changed)
        tried.append((variant, size))
        return size <= budget

    variants = [Variant(threads=1)] if program.threads > 1 else []
    pattern = _last_layer(program)
    if pattern is not None:
        variants.append(Variant(train_only=pattern))
    for variant in variants:
        attempt(variant)
    _largest_batch(program, attempt)
    if not any(size <= budget for _, size in tried):
        threads = 1 if program.threads > 1 else None
        attempt(Variant(_smallest_batch(tried), threads))
        attempt(Variant(_smallest_batch(tried), threads, pattern))
    fitting = [(v, s) for v, s in tried if s <= budget]
    best_batch = max((v.batch_size or 0 for v, _ in fitting), default=0)
    shown = [(v, s) for v, s in fitting if v.batch_size in (None, best_batch)]
    if shown:
        yield "what would fit:"
        yield from (f"  {variant}: needs {size:,d} B" for variant, size in shown)
        yield from _not_enough(tried, budget)
    elif tried:
        variant, size = min(tried, key=lambda entry: entry[1])
        yield f"nothing tried fits; the nearest is {variant}: needs {size:,d} B"
    yield f"without other changes the budget must be at least {_arena(program):,d} B"


def _not_enough(tried: list[tuple[Variant, int]], budget: int) -> Iterator[str]:
    """Yield the single options that do not fit even at their smallest, if there are any."""
    single = [(v, s) for v, s in tried if v.threads is None or v.batch_size is None]
    kinds = ([e for e in single if e[0].batch_size is not None],
             [e for e in single if e[0].batch_size is None and e[0].threads is not None],
             [e for e in single if e[0].train_only is not None])  # fmt: skip
    least = [min(kind, key=lambda entry: entry[1]) for kind in kinds if kind]
    short = [f"{variant}: needs {size:,d} B" for variant, size in least if size > budget]
    if short:
        yield "not enough alone: " + "; ".join(short)


def _smallest_batch(tried: list[tuple[Variant, int]]) -> int | None:
    """Return the smallest batch that could be compiled."""
    return min((v.batch_size for v, _ in tried if v.batch_size is not None), default=None)


def _largest_batch(program: Program, attempt: Callable[[Variant], bool]) -> None:
    """Try batches by bisection; `attempt` keeps what it saw."""
    low, high = 0, program.batch_size
    while high - low > 1:
        middle = (low + high) // 2
        if attempt(Variant(batch_size=middle)):
            low = middle
        else:
            high = middle


def _last_layer(program: Program) -> str | None:
    """Return the pattern of the last layer's parameters, None if nothing else is trained."""
    trained: list[str] = []
    for step in program.steps:
        if step.phase is not Phase.TRAIN or step.kind != "F":
            continue
        for operand in step.operands:
            if operand is not None and program.tensors[operand].role is Role.WEIGHT:
                prefix = program.tensors[operand].name.rpartition(".")[0]
                if prefix not in trained:
                    trained.append(prefix)
    return f"{trained[-1]}.*" if len(trained) > 1 else None
