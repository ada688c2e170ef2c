"""Factors of every schedule against stored PyTorch ones, and against what texts promise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from armtrain.optim.lr_scheduler import parse_schedule
from tests.golden.schedules import MEASURED, PLATEAUS, SCHEDULES, TIMES

STORED = json.loads((Path(__file__).parent / "schedules.json").read_text())
STORED_PLATEAUS = json.loads((Path(__file__).parent / "plateaus.json").read_text())
# Recursions of torch and closed forms here: a rounding or a few for each time.
TOLERANCE = 8 * TIMES * 2.0**-53


def factors(text: str, times: int) -> list[float]:
    """Return the factor at every time, epochs and steps counted alike."""
    scale = pytest.importorskip("armtrain._engine", reason="the engine is not built").schedule_scale
    (part,) = parse_schedule(text)
    lists = part.values(), getattr(part, "milestones", ())
    return [scale(part.word, *lists, part.interval == "step", t, t) for t in range(times)]


def test_all_schedules_are_stored() -> None:
    assert set(STORED) == set(SCHEDULES)


@pytest.mark.parametrize("text", SCHEDULES)
def test_factors_are_torchs(text: str) -> None:
    np.testing.assert_allclose(factors(text, TIMES), STORED[text], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("text", "last"),
    [("one_cycle:total_steps=10", 1 / 25 / 1e4), ("linear", 1.0), ("polynomial", 0.0)],
)
def test_the_last_factor_stays(text: str, last: float) -> None:
    assert factors(text, 200)[100:] == pytest.approx([last] * 100, rel=1e-12)


def test_a_cycle_without_a_way_up_starts_at_its_top() -> None:
    assert factors("one_cycle:total_steps=10,pct_start=0.1", 1) == [1.0]


@pytest.mark.parametrize(("what", "quantity"), [("loss", 2), ("accuracy", 3)])
@pytest.mark.parametrize("text", PLATEAUS)
def test_a_plateau_is_torchs(text: str, what: str, quantity: int) -> None:
    engine = pytest.importorskip("armtrain._engine", reason="the engine is not built")
    (part,) = parse_schedule(text)
    memory, found = engine.new_monitor(), []
    for epoch, value in enumerate(MEASURED[what], 1):
        memory, _ = engine.monitor_epoch(memory, quantity, value, epoch, part.values())
        found.append(memory["plateau_scale"])
    np.testing.assert_allclose(found, STORED_PLATEAUS[what][text], rtol=TOLERANCE, atol=0)
