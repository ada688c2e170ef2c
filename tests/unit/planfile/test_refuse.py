"""The refusal of a plan above its budget offers only what has been planned and fits."""

from __future__ import annotations

import re

import pytest

from armtrain import nn, optim
from armtrain.compiler import plan
from armtrain.errors import ShapeError
from armtrain.ir.program import Program
from armtrain.passes.pipeline import compile_program
from armtrain.planfile.assemble import assemble
from armtrain.planfile.refuse import OverBudgetError, Variant, does_not_fit
from armtrain.words import ARGUMENTS, OPTIONS
from tests.plans import mlp_classifier


def compile_variant(variant: Variant) -> Program:
    """Compile the classifier of these tests; it cannot be frozen."""
    if variant.train_only is not None:
        raise ShapeError("not here")
    batch, threads = variant.batch_size or 64, variant.threads or 4
    return mlp_classifier((200, 50, 10), batch, threads)


def refusal(budget_bytes: int) -> str:
    """Return the text of the refusal."""
    data = assemble(compile_variant(Variant()))
    error = does_not_fit(data, budget_bytes, compile_variant)
    assert error.exit_code == 3
    return str(error)


def test_numbers_and_largest_buffers() -> None:
    data = assemble(compile_variant(Variant()))
    text = refusal(500_000)
    for number in (data.arena_bytes, data.lower_bound_bytes, 500_000, 2 * 42_240):
        assert f"{number:,d} B" in text
    assert re.search(r"51,200 B  input +input", text)
    assert f"budget must be at least {data.arena_bytes:,d} B" in text


def test_a_largest_batch_that_fits() -> None:
    full = assemble(compile_variant(Variant())).arena_bytes
    text = refusal(full - 1)
    match = re.search(r"batch_size=(\d+): needs ([\d,]+) B", text)
    assert match
    batch = int(match[1])
    need = assemble(compile_variant(Variant(batch_size=batch))).arena_bytes
    assert f"{need:,d}" == match[2]
    assert need <= full - 1
    assert assemble(compile_variant(Variant(batch_size=batch + 1))).arena_bytes > full - 1


def test_fewer_threads_that_fit() -> None:
    need = assemble(compile_variant(Variant(threads=1))).arena_bytes
    assert f"threads=1: needs {need:,d} B" in refusal(need)


def test_the_nearest_thing_when_nothing_fits() -> None:
    text = refusal(1000)
    assert "what would fit" not in text
    assert "nothing tried fits; the nearest is batch_size=1, threads=1: needs at least" in text


def test_swap_and_recompute_are_not_promised() -> None:
    assert not re.search("swap|recompute", refusal(1000))


def offers(text: str) -> list[tuple[Variant, int]]:
    """Return what a refusal offers, read from its text alone."""
    found = []
    for line in text.partition("what would fit:")[2].split("\n"):
        if match := re.fullmatch(r"  (.*): needs ([\d,]+) B", line):
            arguments = eval(f"dict({match[1]})", {})  # the text of arguments, as in Python
            found.append((Variant(**arguments), int(match[2].replace(",", ""))))
    return found


def compile_deep(variant: Variant) -> Program:
    """Compile a network in which threads cost more than samples, and that can be frozen."""
    net = nn.Sequential(nn.Linear(30, 40), nn.Tanh(), nn.Linear(40, 5))
    return compile_program(
        net,
        input_shape=(30,),
        batch_size=variant.batch_size or 64,
        threads=variant.threads or 4,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.1, momentum=0.9),
        train_only=variant.train_only,
    )


def test_every_offer_is_what_planning_it_gives() -> None:
    full = assemble(compile_deep(Variant()))
    smallest = assemble(compile_deep(Variant(1, 1, "2.*"))).arena_bytes
    seen = set()
    for budget in range(full.arena_bytes - 64, smallest - 1024, -20_000):
        error = does_not_fit(full, budget, compile_deep)
        for variant, size in offers(str(error)):
            assert assemble(compile_deep(variant)).arena_bytes == size <= budget, str(error)
            seen.add((bool(variant.batch_size), bool(variant.threads), bool(variant.train_only)))
    assert len(seen) >= 3, seen


def test_one_thread_with_the_largest_batch_that_fits() -> None:
    full = assemble(compile_deep(Variant()))
    budget = assemble(compile_deep(Variant(10, 1))).arena_bytes
    assert assemble(compile_deep(Variant(11, 1))).arena_bytes > budget
    found = offers(str(does_not_fit(full, budget, compile_deep)))
    assert (Variant(10, 1), budget) in found
    assert not [v for v, _ in found if v.batch_size == 1]


def test_the_command_line_reads_options() -> None:
    full = assemble(compile_deep(Variant()))
    budget = assemble(compile_deep(Variant(10, 1))).arena_bytes
    error = does_not_fit(full, budget, compile_deep)
    assert f"  --batch 10 --threads 1: needs {budget:,d} B" in error.text(OPTIONS)
    assert "batch_size" not in error.text(OPTIONS)
    assert "--" not in str(error)


def test_an_arena_above_every_arena_is_refused_without_a_budget() -> None:
    with pytest.raises(OverBudgetError) as caught:
        plan(
            nn.Linear(2**30, 64),
            input_shape=(2**30,),
            batch_size=1,
            loss=nn.CrossEntropyLoss(),
            optimizer=optim.SGD(lr=0.1),
        )
    assert "an arena has at most 137,438,953,472 B" in str(caught.value)
    assert "the budget must be" not in str(caught.value)


@pytest.mark.parametrize(
    ("variant", "options", "arguments"),
    [
        (Variant(batch_size=8), "--batch 8", "batch_size=8"),
        (Variant(10, 1), "--batch 10 --threads 1", "batch_size=10, threads=1"),
        (
            Variant(threads=1, train_only="4.*"),
            "--threads 1 --train-only '4.*'",
            "threads=1, train_only='4.*'",
        ),
    ],
)
def test_variants_read_like_what_the_caller_writes(
    variant: Variant, options: str, arguments: str
) -> None:
    assert variant.text(OPTIONS) == options
    assert variant.text(ARGUMENTS) == arguments
