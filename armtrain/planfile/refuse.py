"""The refusal of a plan above its budget: what it needs, what sets that, and what would fit.

Every alternative is planned before it is offered, and named in the caller's words: arguments of
`armtrain.plan` or options of the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from armtrain.errors import ArmtrainError, DoesNotFitError
from armtrain.ir.program import Phase, Program, Role
from armtrain.limits import MAX_ARENA_BYTES
from armtrain.memory.bounds import lower_bound
from armtrain.planfile.account import accounts, peak_step
from armtrain.planfile.assemble import assemble, problem_of
from armtrain.planfile.data import PlanData
from armtrain.planfile.describe import peak_items
from armtrain.schedule.lifetime import lifetimes_of
from armtrain.words import ARGUMENTS, Words

__all__ = ["OverBudgetError", "Variant", "does_not_fit"]

_ITEMS = 6


@dataclass(frozen=True)
class Variant:
    """A changed input of the compiler; None leaves it as it was."""

    batch_size: int | None = None
    threads: int | None = None
    train_only: str | None = None

    def text(self, words: Words) -> str:
        """Return what to write to ask for it."""
        given = [(name, getattr(self, name)) for name in ("batch_size", "threads", "train_only")]
        return words["separator"].join(words[n].format(v) for n, v in given if v is not None)


Compile = Callable[[Variant], Program]


class OverBudgetError(DoesNotFitError):
    """A plan above its budget; `text(OPTIONS)` is the message for the command line."""

    def __init__(self, text: Callable[[Words], str]) -> None:
        super().__init__(text(ARGUMENTS))
        self.text = text


def does_not_fit(
    data: PlanData, budget_bytes: int | None, compile_variant: Compile
) -> OverBudgetError:
    """Return the error for a plan above its budget, or above what any arena may have.

    Parameters
    ----------
    data : PlanData
        The plan that does not fit.
    budget_bytes : int, optional
    compile_variant : callable
        Compiles the same model with changed inputs.
    """
    limit = min(budget_bytes or MAX_ARENA_BYTES, MAX_ARENA_BYTES)
    what = "the budget is" if limit == budget_bytes else "an arena has at most"
    figures = accounts(data)
    weights, state = figures["weights_bytes"], figures["optimizer_bytes"]
    lines = [
        f"the plan needs {data.arena_bytes:,d} B, {what} {limit:,d} B: "
        f"{data.arena_bytes - limit:,d} B too much (no layout needs less than "
        f"{data.proved_minimum_bytes:,d} B; lower bound {data.lower_bound_bytes:,d} B)",
        f"always there: weights {weights:,d} B + optimizer state {state:,d} B = "
        f"{weights + state:,d} B, thread stacks {figures['stacks_bytes']:,d} B",
        f"at their peaks: batch of data {figures['input_bytes']:,d} B, activations "
        f"{figures['activations_peak_bytes']:,d} B, gradients "
        f"{figures['gradients_peak_bytes']:,d} B, workspace {figures['workspace_bytes']:,d} B",
        *_largest(data),
    ]
    search = _Search(limit, compile_variant)
    search.run(data.program)

    def text(words: Words) -> str:
        ways = _ways_out(search, words)
        least = f"without other changes the budget must be at least {data.arena_bytes:,d} B"
        return "\n".join([*lines, *ways, *([least] if data.arena_bytes <= MAX_ARENA_BYTES else [])])

    return OverBudgetError(text)


def _largest(data: PlanData) -> Iterator[str]:
    """Yield the largest buffers of the fullest step."""
    index = peak_step(data.lifetimes)
    step = data.program.steps[index]
    yield f"largest buffers at the fullest step {index} ({step.layer} {step.op.name.lower()}):"
    for name, item in peak_items(data, _ITEMS):
        yield f"  {item.nbytes:>14,d} B  {item.role.name.lower():10s} {name}"


def _bound(program: Program) -> int:
    """Return the lower bound of a program's arena, without packing."""
    return lower_bound(problem_of(lifetimes_of(program)).buffers)


@dataclass
class _Search:
    """Tries variants; `sizes` keeps the arena, or a lower bound of one that is too large."""

    budget: int
    compile_variant: Compile
    sizes: dict[Variant, int] = field(default_factory=dict)

    def fits(self, **changes: Any) -> bool:
        """Plan a variant and tell whether it is within the budget."""
        variant = Variant(**changes)
        if variant not in self.sizes:
            try:
                changed = self.compile_variant(variant)
            except ArmtrainError:  # the variant is not possible, for example a batch of one
                return False
            size = _bound(changed)
            if size <= self.budget:
                size = assemble(changed).arena_bytes
            self.sizes[variant] = size
        return self.sizes[variant] <= self.budget

    def largest(self, name: str, below: int, **others: Any) -> int | None:
        """Return the largest value of an input under `below` that fits, by bisection."""
        low, high = 0, below
        while high - low > 1:
            middle = (low + high) // 2
            if self.fits(**{name: middle}, **others):
                low = middle
            else:
                high = middle
        return low or None

    def run(self, program: Program) -> None:
        """Try one change alone, then two, then all: what costs least comes first."""
        batch, threads = program.batch_size, program.threads
        pattern = _last_layer(program)
        fewer = self.largest("threads", threads)
        frozen = pattern is not None and self.fits(train_only=pattern)
        same_threads = self.largest("batch_size", batch)
        if fewer is None and threads > 1:
            self.largest("batch_size", batch, threads=1)
        if fewer is None and not frozen and same_threads is None and pattern is not None:
            changes: dict[str, Any] = {"train_only": pattern}
            changes |= {"threads": 1} if threads > 1 else {}
            if not self.fits(**changes):
                self.largest("batch_size", batch, **changes)


def _kind(variant: Variant) -> tuple[bool, int | None, str | None]:
    """Return what variants have in common of which the largest is offered."""
    by_batch = variant.batch_size is not None
    return by_batch, variant.threads if by_batch else None, variant.train_only


def _offers(search: _Search) -> list[tuple[Variant, int]]:
    """Return the variants that fit, of each kind the one that changes least."""
    best: dict[tuple[bool, int | None, str | None], Variant] = {}
    for variant, size in search.sizes.items():
        if size <= search.budget:
            held = best.setdefault(_kind(variant), variant)
            if _amounts(variant) > _amounts(held):
                best[_kind(variant)] = variant
    # One thread is worth its loss of speed only for a larger batch.
    same = max((v.batch_size or 0 for v in best.values() if v.threads is None), default=0)
    return [
        (variant, search.sizes[variant])
        for variant in best.values()
        if variant.threads is None or (variant.batch_size or same + 1) > same
    ]


def _amounts(variant: Variant) -> tuple[int, int]:
    """Return batch and threads for comparing variants of a kind."""
    return variant.batch_size or 0, variant.threads or 0


def _ways_out(search: _Search, words: Words) -> Iterator[str]:
    """Yield what would fit, and the nearest thing when nothing does."""
    offers = _offers(search)
    if offers:
        yield "what would fit:"
        yield from (f"  {variant.text(words)}: needs {size:,d} B" for variant, size in offers)
        yield from _not_enough(search, words)
    elif search.sizes:
        variant, size = min(search.sizes.items(), key=lambda entry: entry[1])
        yield (
            f"nothing tried fits; the nearest is {variant.text(words)}: needs at least {size:,d} B"
        )


def _not_enough(search: _Search, words: Words) -> Iterator[str]:
    """Yield the single changes that do not fit even at their smallest, if there are any."""
    short = []
    for name in ("batch_size", "threads", "train_only"):
        alone = [v for v in search.sizes if v == Variant(**{name: getattr(v, name)})]
        least = min(alone, key=search.sizes.__getitem__, default=None)
        if least is not None and search.sizes[least] > search.budget:
            short.append(f"{least.text(words)}: needs at least {search.sizes[least]:,d} B")
    if short:
        yield "not enough alone: " + "; ".join(short)


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
