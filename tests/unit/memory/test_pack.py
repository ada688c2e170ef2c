"""The packer: valid, never below its bounds, optimal where that can be known."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtrain.memory import Buffer, Problem, pack
from armtrain.memory.bounds import live_profile, lower_bound, peak_time
from armtrain.memory.greedy import ORDERS, Placer
from armtrain.memory.search import is_compiled
from armtrain.memory.validate import violations
from tests.strategies import problems

HARD = Path(__file__).parents[2] / "data" / "minimalloc"


def least_height(problem: Problem) -> int:
    """Return the optimum by trying every order of stacking buffers on those placed before."""
    best = sum(b.size for b in problem.buffers)
    for order in permutations(problem.buffers):
        placed: list[tuple[Buffer, int]] = []
        for buffer in order:
            tops = [top for other, top in placed if other.overlaps(buffer)]
            placed.append((buffer, max(tops, default=0) + buffer.size))
        best = min(best, max(top for _, top in placed))
    return best


@given(problems())
def test_packings_are_valid(problem: Problem) -> None:
    solution = pack(problem)
    assert not violations(problem, solution.offsets, solution.height_bytes)
    assert solution.lower_bound_bytes == lower_bound(problem.buffers)
    assert solution.lower_bound_bytes <= solution.proved_minimum_bytes <= solution.height_bytes
    tops = [o + b.size for o, b in zip(solution.offsets, problem.buffers, strict=True)]
    assert solution.height_bytes == max(tops, default=0)


@given(problems(max_buffers=6, horizon=6))
def test_tiny_packings_are_optimal(problem: Problem) -> None:
    if not problem.buffers:
        return
    solution = pack(problem)
    optimum = least_height(problem)
    assert solution.height_bytes == optimum
    assert solution.proved_minimum_bytes == optimum


def test_a_capacity_is_low_enough() -> None:
    items = tuple(Buffer(i % 7, i % 7 + 3, 3 + i % 4) for i in range(40))
    least = pack(Problem(items)).height_bytes
    roomy = pack(Problem(items), capacity=2 * least)
    assert least <= roomy.height_bytes <= 2 * least
    assert roomy.nodes <= len(items)


@pytest.mark.parametrize("name", "ABCDEF")
def test_hard_problems_fit_their_capacity(name: str) -> None:
    problem = Problem.from_csv((HARD / f"{name}.1048576.csv").read_text())
    solution = pack(problem, capacity=1 << 20, node_limit=5_000_000)
    assert not violations(problem, solution.offsets, 1 << 20)


@given(problems(unit=64))
def test_offsets_keep_the_sizes_divisor(problem: Problem) -> None:
    assert all(offset % 64 == 0 for offset in pack(problem).offsets)


@given(problems())
def test_the_result_depends_on_the_problem_alone(problem: Problem) -> None:
    assert pack(problem) == pack(problem)


@given(problems(), st.sampled_from(sorted(ORDERS)), st.booleans())
def test_greedy_packings_are_valid(problem: Problem, order_name: str, best_fit: bool) -> None:
    key = ORDERS[order_name]
    order = sorted(range(len(problem.buffers)), key=lambda i: key(problem.buffers[i]))
    offsets = Placer(problem.buffers).place(order, best_fit)
    assert not violations(problem, offsets)


@given(problems(max_buffers=24), st.randoms(use_true_random=False), st.booleans())
def test_greedy_twins_agree(problem: Problem, random: Random, best_fit: bool) -> None:
    if not is_compiled():
        pytest.skip("the extension module is not built")
    order = list(range(len(problem.buffers)))
    random.shuffle(order)
    placer = Placer(problem.buffers)
    assert placer.place(order, best_fit) == placer.place_plain(order, best_fit)


def test_permanent_buffers_lie_at_the_bottom() -> None:
    problem = Problem((Buffer(0, 3, 5), Buffer(0, 9, 2), Buffer(3, 9, 4), Buffer(0, 9, 1)))
    solution = pack(problem)
    assert solution.offsets[1] == 0
    assert solution.offsets[3] == 2
    assert solution.height_bytes == solution.lower_bound_bytes == 8


def test_an_empty_problem() -> None:
    assert pack(Problem(())).height_bytes == 0


def test_the_profile_and_its_peak() -> None:
    items = (Buffer(0, 2, 3), Buffer(1, 4, 5), Buffer(2, 3, 1))
    assert live_profile(items) == [(0, 3), (1, 8), (2, 6), (3, 5), (4, 0)]
    assert (lower_bound(items), peak_time(items)) == (8, 1)
