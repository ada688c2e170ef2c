"""Problems as tables, and what the independent validator reports."""

from __future__ import annotations

import pytest
from hypothesis import given

from armtrain.errors import PlanError
from armtrain.memory import Buffer, Problem, pack
from armtrain.memory.validate import violations
from tests.strategies import problems


@given(problems())
def test_tables_round_trip(problem: Problem) -> None:
    again = Problem.from_csv(problem.to_csv())
    assert again.buffers == problem.buffers


def test_columns_in_any_order_and_ids_kept() -> None:
    problem = Problem.from_csv("size,id,upper,lower\n7,weights,4,0\n")
    assert problem.buffers == (Buffer(0, 4, 7),)
    assert problem.to_csv(pack(problem)) == "id,lower,upper,size,offset\nweights,0,4,7,0\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("id,lower,size\n1,2,3\n", "lacks the column"),
        ("id,lower,upper,size\n1,2,x,4\n", "line 2"),
        ("id,lower,upper,size\nb7,2,2,4\n", "buffer b7"),
        ("id,lower,upper,size\nb7,2,3,0\n", "size 0"),
        ("", "lacks the column"),
    ],
)
def test_bad_tables_are_refused(text: str, cause: str) -> None:
    with pytest.raises(PlanError, match=cause):
        Problem.from_csv(text)


def test_dumps_name_everything() -> None:
    problem = Problem((Buffer(0, 2, 3), Buffer(1, 4, 5)))
    assert "[1,4) size 5" in problem.dump()
    assert "lower bound 8" in pack(problem).dump(problem)


PAIR = Problem((Buffer(0, 2, 3), Buffer(1, 4, 5), Buffer(2, 5, 3)))


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ((0, 2, 8), ["0 [0,3)", "1 [2,7)", "overlap"]),
        ((0, 3, 7), ["1 [3,8)", "2 [7,10)"]),
        ((-1, 3, 0), ["negative"]),
        ((0, 3), ["2 offsets for 3 buffers"]),
        ((9, 3, 0), ["buffer 0 ends at 12, above the capacity 11"]),
    ],
)
def test_the_validator_names_what_is_wrong(offsets: tuple[int, ...], words: list[str]) -> None:
    found = violations(PAIR, offsets, capacity=11)
    assert len(found) == 1
    assert all(word in found[0] for word in words)


def test_the_validator_accepts_touching_buffers() -> None:
    assert violations(PAIR, (0, 3, 0), capacity=8) == []
    assert violations(PAIR, (0, 3, 0), alignment=2) == ["buffer 1 at 3 is not aligned to 2"]
