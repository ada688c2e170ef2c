"""The refusal of a plan above its budget offers only what has been planned and fits."""

from __future__ import annotations

import re

import pytest

from armtrain.errors import ShapeError
from armtrain.ir.program import Program
from armtrain.planfile.assemble import assemble
from armtrain.planfile.refuse import Variant, does_not_fit
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
    match = re.search(r"--batch (\d+): needs ([\d,]+) B", text)
    assert match
    batch = int(match[1])
    need = assemble(compile_variant(Variant(batch_size=batch))).arena_bytes
    assert f"{need:,d}" == match[2]
    assert need <= full - 1
    assert assemble(compile_variant(Variant(batch_size=batch + 1))).arena_bytes > full - 1


def test_fewer_threads_that_fit() -> None:
    need = assemble(compile_variant(Variant(threads=1))).arena_bytes
    assert f"--threads 1: needs {need:,d} B" in refusal(need)


def test_the_nearest_thing_when_nothing_fits() -> None:
    text = refusal(1000)
    assert "what would fit" not in text
    assert "nothing tried fits; the nearest is --batch 1 --threads 1: needs" in text


def test_swap_and_recompute_are_not_promised() -> None:
    assert not re.search("swap|recompute", refusal(1000))


@pytest.mark.parametrize(
    ("variant", "text"),
    [
        (Variant(batch_size=8), "--batch 8"),
        (Variant(threads=1, train_only="4.*"), "--threads 1 --train-only '4.*'"),
    ],
)
def test_variants_read_like_options(variant: Variant, text: str) -> None:
    assert str(variant) == text
