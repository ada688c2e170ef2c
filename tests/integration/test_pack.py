"""`armtrain pack`: place a table's buffers, refuse what does not fit, certify a placement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from armtrain.cli.main import main
from armtrain.memory.search import is_compiled

HARD = Path(__file__).parents[1] / "data" / "minimalloc"
CAPACITY = 1 << 20
ROWS = "id,lower,upper,size\na,0,3,4\nb,1,4,4\nc,3,9,4\n"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small table in the current directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "b.csv"
    path.write_text(ROWS)
    return path


@pytest.mark.parametrize("name", "ABCDEF")
def test_hard_tables_are_packed_and_certified(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not is_compiled():
        pytest.skip("the extension module is not built")
    source, out = str(HARD / f"{name}.1048576.csv"), str(tmp_path / "out.csv")
    assert main(["pack", source, "--capacity", str(CAPACITY), "-o", out, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["lower_bound_bytes"] <= facts["height_bytes"] <= CAPACITY
    assert main(["pack", source, "--check", out, "--capacity", str(CAPACITY)]) == 0


def test_the_least_height_is_looked_for_without_a_capacity(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pack", "b.csv", "-o", "o.csv", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["height_bytes"] == facts["proved_minimum_bytes"] == 8
    header, *rows = Path("o.csv").read_text().splitlines()
    assert header == "id,lower,upper,size,offset"
    assert [row.split(",")[0] for row in rows] == ["a", "b", "c"]


def test_a_capacity_that_is_too_small_is_refused_with_the_least(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pack", "b.csv", "--capacity", "7", "-o", "o.csv"]) == 3
    assert "at least 8 are needed" in capsys.readouterr().err
    assert not Path("o.csv").exists()


def test_an_undecided_capacity_says_what_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    source = str(HARD / "B.1048576.csv")
    assert main(["pack", source, "--capacity", str(CAPACITY), "--nodes", "3000"]) == 3
    said = capsys.readouterr().err
    assert "nor a proof" in said
    assert "--nodes" in said


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("id,lower,upper,size,offset\na,0,3,4,0\nb,1,4,4,2\n", "overlap"),
        ("id,lower,upper,size,offset\na,0,3,4,-4\n", "negative"),
        ("id,lower,upper,size,offset\na,0,3,4,5\n", "above the capacity 8"),
        ("id,lower,upper,size,offset\na,0,3,4\n", "offset must be"),
        ("id,lower,upper,size\na,0,3,4\n", "no column 'offset'"),
    ],
)
def test_wrong_placements_are_not_certified(
    rows: str, says: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("o.csv").write_text(rows)
    assert main(["pack", "--check", "o.csv", "--capacity", "8"]) == 1
    assert says in capsys.readouterr().err


def test_a_placement_of_other_buffers_is_not_certified(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pack", "b.csv", "-o", "o.csv"]) == 0
    assert main(["pack", "--check", "o.csv"]) == 0
    table.write_text(ROWS.replace("c,3,9,4", "c,3,9,5"))
    assert main(["pack", "b.csv", "--check", "o.csv"]) == 1
    assert "buffer c" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("id,lower,size\na,0,3\n", "upper"),
        ("id,lower,upper,size\na,0,x,3\n", "line 2"),
        ("id,lower,upper,size\na,0,3\n", "line 2"),
        ("id,lower,upper,size\na,3,3,3\n", "lower < upper"),
        ("id,lower,upper,size\na,0,3,0\n", "size > 0"),
        ("id,lower,upper,size\na,0,3,1\na,0,3,1\n", "two buffers have the id 'a'"),
        (f"id,lower,upper,size\na,0,3,{2**48}\n", "2^48"),
        ("", "lacks the column"),
    ],
)
def test_tables_that_are_wrong_are_refused(
    rows: str, says: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table.write_text(rows)
    assert main(["pack", "b.csv"]) == 1
    said = capsys.readouterr().err
    assert "b.csv" in said
    assert says in said


def test_a_table_without_buffers_needs_nothing(table: Path) -> None:
    table.write_text("id,lower,upper,size\n")
    assert main(["pack", "b.csv", "-o", "o.csv"]) == 0
    assert main(["pack", "b.csv", "--check", "b.csv"]) == 1
