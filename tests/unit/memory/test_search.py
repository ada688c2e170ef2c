"""The complete search: true answers, and the compiled twin tries what the plain one tries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtrain.memory import Buffer, Problem
from armtrain.memory.bounds import lower_bound
from armtrain.memory.ranks import RANKS, Ranks
from armtrain.memory.search import Outcome, exact, exact_plain, is_compiled
from armtrain.memory.sections import Sections
from armtrain.memory.validate import violations
from tests.strategies import problems
from tests.unit.memory.test_pack import least_height

SEARCHES = {"compiled": exact, "plain": exact_plain}


@pytest.fixture(params=SEARCHES)
def search_name(request: pytest.FixtureRequest) -> str:
    """The name of a search that is there."""
    if request.param == "compiled" and not is_compiled():
        pytest.skip("the extension module is not built")
    return str(request.param)


@pytest.mark.parametrize("rank", sorted(RANKS))
@given(problem=problems(max_buffers=6, horizon=6))
def test_every_capacity_is_decided(rank: str, problem: Problem) -> None:
    if not problem.buffers:
        return
    optimum = least_height(problem)
    sections = Sections.of(problem.buffers)
    places = Ranks(problem.buffers, sections).fixed(rank)
    for search in SEARCHES.values():
        outcome, offsets, _ = search(sections, optimum, 100_000, places)
        assert outcome is Outcome.FOUND
        assert not violations(problem, offsets, optimum)
        outcome, offsets, _ = search(sections, optimum - 1, 100_000, places)
        assert (outcome, offsets) == (Outcome.INFEASIBLE, [])


@given(problems(max_buffers=24), st.integers(0, 2**32), st.integers(0, 300), st.integers(0, 8))
def test_twins_agree_node_for_node(
    problem: Problem, seed: int, node_limit: int, slack: int
) -> None:
    if not is_compiled():
        pytest.skip("the extension module is not built")
    sections = Sections.of(problem.buffers)
    rank = Ranks(problem.buffers, sections).shaken(seed)
    capacity = lower_bound(problem.buffers) + slack - 2 if problem.buffers else slack
    found = [search(sections, capacity, node_limit, rank) for search in SEARCHES.values()]
    assert found[0] == found[1]


def test_a_search_stops_at_its_limit(search_name: str) -> None:
    items = [Buffer(i % 5, i % 5 + 3, 3 + i % 4) for i in range(20)]
    sections = Sections.of(items)
    rank = Ranks(items, sections).fixed("long")
    stopped = SEARCHES[search_name](sections, lower_bound(items), 3, rank)
    assert stopped == (Outcome.LIMIT, [], 3)


def test_too_many_buffers_are_left_undecided(search_name: str) -> None:
    items = [Buffer(0, 1, 1)] * 2001
    sections = Sections.of(items)
    outcome, _, nodes = SEARCHES[search_name](sections, 2000, 10**6, list(range(2001)))
    assert (outcome, nodes) == (Outcome.LIMIT, 0)


@given(problems())
def test_sections_are_the_largest_sets_that_live_together(problem: Problem) -> None:
    sections = Sections.of(problem.buffers)
    here = [
        {
            i
            for i, a, b in zip(sections.order, sections.start, sections.stop, strict=True)
            if a <= s < b
        }
        for s in range(sections.count)
    ]
    times = sorted({b.lower for b in problem.buffers})
    spans = [{i for i, b in enumerate(problem.buffers) if b.lower <= t < b.upper} for t in times]
    largest = [span for span in spans if not any(span < other for other in spans)]
    assert [set(s) for s in here] == [s for k, s in enumerate(largest) if s not in largest[:k]]


@given(problems(), st.integers(0, 2**64))
def test_ranks_are_permutations(problem: Problem, seed: int) -> None:
    ranks = Ranks(problem.buffers, Sections.of(problem.buffers))
    for rank in (ranks.shaken(seed), *map(ranks.fixed, RANKS)):
        assert sorted(rank) == list(range(len(problem.buffers)))
