"""Board profiles: by id, by file, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from armtrain.board.profile import Board, board_ids, load_board
from armtrain.errors import ArgumentError, PlanError


def test_generic_assumes_four_threads() -> None:
    assert load_board("generic") == Board("generic", "any Linux machine", 4)


@pytest.mark.parametrize("board_id", board_ids())
def test_every_profile_is_valid_and_named_like_its_file(board_id: str) -> None:
    assert load_board(board_id).id == board_id


def test_a_profile_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('id = "mine"\nname = "My board"\nthreads = 2\n')
    assert load_board(str(path)) == Board("mine", "My board", 2)


def test_an_unknown_board_lists_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match=f"known are {', '.join(board_ids())}, or name"):
        load_board("no-such-board")
    with pytest.raises(ArgumentError, match=r"similar are .*raspberrypi-4b[,;]"):
        load_board("raspberypi-4b")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("id = ", "no TOML"),
        ('id = "x"\nname = "y"\n', "'threads' must be a int"),
        ('id = "x"\nname = "y"\nthreads = true\n', "'threads'"),
        ('id = "x"\nname = "y"\nthreads = 0\n', "0 threads"),
        ('id = "x"\nname = "y"\nthreads = 65\n', "1 to 64"),
    ],
)
def test_bad_profiles_are_refused(tmp_path: Path, text: str, cause: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(PlanError, match=cause):
        load_board(str(path))


def test_a_missing_profile_file(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot read"):
        load_board(str(tmp_path / "none.toml"))
