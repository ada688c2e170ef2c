"""The tables of docs/planning.md and docs/weight-gradients.md are what plans say."""

from __future__ import annotations

from pathlib import Path

import pytest

import armtrain as at
from armtrain import optim, zoo
from armtrain.passes.pipeline import compile_program
from armtrain.planfile.assemble import assemble
from armtrain.planfile.plan import Plan
from armtrain.planfile.predict import ASSUMED

DOCS = Path(__file__).resolve().parents[3] / "docs"
MIB = 1 << 20
MOMENTUM = optim.SGD(lr=0.01, momentum=0.9)
OPTIMIZERS = {
    "SGD": optim.SGD(lr=0.01),
    "SGD with momentum": MOMENTUM,
    "momentum": MOMENTUM,
    "Adam": optim.Adam(),
}


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table that begins with a heading."""
    lines = iter((DOCS / page).read_text(encoding="utf-8").splitlines())
    next(line for line in lines if line.startswith(f"| {heading}"))
    next(lines)
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        found.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return found


def arena_by(name: str, optimizer: optim.Optimizer, *, by_blocks: bool) -> str:
    """Return MiB at batch 32 with two decimals."""
    entry = zoo.entry(name)
    program = compile_program(
        entry.build(),
        input_shape=entry.input_shape,
        batch_size=32,
        loss=entry.loss(),
        optimizer=optimizer,
        threads=1,
        by_blocks=by_blocks,
        recompute_at=ASSUMED,
    )
    return f"{assemble(program).arena_bytes / MIB:.2f}"


@pytest.mark.parametrize("row", rows("weight-gradients.md", "model | optimiser"), ids=" ".join)
def test_gradients_by_blocks(row: list[str]) -> None:
    name, optimizer, *arenas = row
    assert arenas == [
        arena_by(name, OPTIMIZERS[optimizer], by_blocks=by_blocks) for by_blocks in (False, True)
    ]


def plan_of(name: str, batch: int, optimizer: optim.Optimizer, *, again: bool) -> Plan:
    """Return a plan with values made again or kept."""
    entry = zoo.entry(name)
    return at.plan(
        entry.build(),
        input_shape=entry.input_shape,
        batch_size=batch,
        loss=entry.loss(),
        optimizer=optimizer,
        threads=1,
        free_recompute=again,
    )


@pytest.mark.parametrize("row", rows("planning.md", "model, batch"), ids=" ".join)
def test_values_made_again(row: list[str]) -> None:
    model, *figures = row
    name, batch, *options = (part.strip(" `") for part in model.split(","))
    optimizer = OPTIMIZERS[options[0] if options else "SGD"]
    kept, again = (plan_of(name, int(batch), optimizer, again=again) for again in (False, True))
    seconds = [float(plan.predicted["step_seconds"] or 0) for plan in (kept, again)]
    assert figures == [
        f"{kept.arena_bytes / MIB:.1f}",
        f"{again.arena_bytes / MIB:.1f}",
        f"+{100 * (seconds[1] / seconds[0] - 1):.1f} %",
    ]
