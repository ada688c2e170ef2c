"""Hypothesis strategies: packing problems and small training programs."""

from __future__ import annotations

from hypothesis import strategies as st

from armtrain.ir.program import Program
from armtrain.memory import Buffer, Problem
from tests.plans import linear_regression, mlp_classifier

__all__ = ["buffers", "problems", "programs"]


@st.composite
def buffers(draw: st.DrawFn, horizon: int = 12, largest: int = 9, unit: int = 1) -> Buffer:
    """Draw a buffer; sizes are multiples of `unit`."""
    lower = draw(st.integers(0, horizon - 1))
    upper = draw(st.integers(lower + 1, horizon))
    return Buffer(lower, upper, unit * draw(st.integers(1, largest)))


def problems(
    max_buffers: int = 24, horizon: int = 12, largest: int = 9, unit: int = 1
) -> st.SearchStrategy[Problem]:
    """Draw a packing problem."""
    drawn = st.lists(buffers(horizon, largest, unit), max_size=max_buffers)
    return drawn.map(lambda items: Problem(tuple(items)))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw a small classifier or a linear regression."""
    batch = draw(st.integers(1, 9))
    if draw(st.booleans()):
        return linear_regression(batch, draw(st.integers(1, 40)))
    sizes = tuple(draw(st.lists(st.integers(2, 40), min_size=2, max_size=5)))
    threads = draw(st.integers(1, 4))
    return mlp_classifier(sizes, batch, threads, draw(st.sampled_from(("sgd", "adam"))))
