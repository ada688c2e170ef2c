"""Board profiles: by id, by file, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from armtrain.board.media import load_medium
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
        ('id = "x"\nname = "y"\n', "'threads' must be an integer"),
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


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ('id = "raspberrypi-4b"', 'id = ""', "'id' must be 1 to 100 printable characters, is ''"),
        ('id = "raspberrypi-4b"', 'id = "a\\nb"', "'id' must be 1 to 100 printable"),
        ('id = "raspberrypi-4b"', f'id = "{"x" * 101}"', "with 101"),
        ('name = "Raspberry Pi 4 Model B"', 'name = "\\u001b[31m"', "'name' must be 1 to 100"),
        ("value = 1500", "value = 1.5", "'clock_mhz' must be .* from 10 to 20000 .* is 1.5"),
        ("value = 1500", f"value = {'9' * 400}", "'clock_mhz' must be a positive number"),
        ("value = 1500", f"value = {'9' * 5000}", "is no TOML"),
        ("value = 1500", f"value = 0x{'f' * 5000}", "is a number of too many digits"),
        ("l2_kib = { value = 1024", "l2_kib = { value = 1048576", "'l2_kib' must be .* to 65536"),
        ("value = 150,", "value = 1024,", "os_use_mib is 1024, .* below the 1024 MiB"),
        ("userland_bits = 64", "userland_bits = 31", "must be one of 32, 64, is 31"),
        ("userland_bits = 64", "userland_bits = 64.0", "must be one of 32, 64, is 64.0"),
        ('soc = "BCM2711"', "threads = 64", "64 threads, 1 to 4 are possible"),
        ('id = "usb3-ssd"', 'id = "sd-ddr50"', r"storage\[1\]: there is another medium 'sd-ddr50'"),
        ("value = 44,", "value = 440,", "read_mb_s is 440, but bus_mb_s only 50"),
    ],
)
def test_what_no_board_can_be_is_refused(
    root: Path, tmp_path: Path, old: str, new: str, cause: str
) -> None:
    text = (root / "boards/raspberrypi-4b.toml").read_text()
    assert old in text
    path = tmp_path / "bad.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(PlanError, match=cause):
        load_board(str(path))


def test_a_byte_order_mark_is_no_part_of_a_profile(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "marked.toml"
    path.write_bytes(b"\xef\xbb\xbf" + (root / "boards/raspberrypi-4b.toml").read_bytes())
    assert load_board(str(path)) == load_board("raspberrypi-4b")
    assert load_medium(str(path), load_board("generic")).id == "sd-ddr50"


def test_a_missing_profile_file(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot read"):
        load_board(str(tmp_path / "none.toml"))
