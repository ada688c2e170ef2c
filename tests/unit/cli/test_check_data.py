"""`armtrain check-data`: what it counts, what it warns of, its exit codes and its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from armtrain.cli.main import main


def check(
    capsys: pytest.CaptureFixture[str], spec: str, *more: str
) -> tuple[int, dict[str, object]]:
    """Return exit code and report."""
    code = main(["check-data", spec, "--json", *more])
    return code, json.loads(capsys.readouterr().out)


def npz(path: Path, x: object, y: object) -> str:
    """Store arrays and return their SPEC."""
    np.savez(path, x=np.asarray(x), y=np.asarray(y))
    return f"npz:{path}"


def test_counts_and_ranges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([[0, 51], [102, 51], [255, 51]], np.uint8)
    code, report = check(capsys, npz(tmp_path / "d.npz", x, [0, 2, 2]))
    assert code == 0
    assert report["usable"] is True
    assert report["samples"] == 3
    assert [c["count"] for c in report["classes"]] == [1, 0, 2]
    inputs = report["inputs"]
    assert (inputs["low"], inputs["high"], inputs["constant"]) == (0, 1, 1)
    assert inputs["mean"] == pytest.approx((51 * 3 + 357) / 6 / 255)
    assert "1 class(es) without samples: 1" in report["warnings"][0]


def test_nan_is_an_error_with_its_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.zeros((5, 2), np.float32)
    x[3, 1] = np.nan
    code, report = check(capsys, npz(tmp_path / "d.npz", x, [0, 1, 0, 1, 0]))
    assert (code, report["usable"]) == (1, False)
    assert "the first in row 3" in report["errors"][0]


def test_targets_have_a_range(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = check(capsys, npz(tmp_path / "d.npz", [[1.0], [2.0]], [[3.0], [5.0]]))
    assert (code, report["classes"]) == (0, [])
    assert (report["targets"]["low"], report["targets"]["high"]) == (3, 5)


@pytest.mark.parametrize(
    ("x", "y", "warning"),
    [
        ([[0.0], [255.0]], [0, 1], "looks like pixels that were not scaled"),
        ([[-1.0], [99.0]], [0, 1], "inputs lie in -1..99"),
        ([[0.0], [1.0]], [[5e3], [1.0]], "targets lie in 1..5000"),
        ([[1.0], [1.0]], [0, 1], "all 2 samples have the same inputs"),
        ([[0.0], [1.0]], [0, 0], "all samples are of one class"),
        ([[0.0], [1.0]], [1, 2], "numbered from 1"),
        (np.eye(13), [0] * 12 + [1], "imbalance: class 0 has 12 samples, 1 has 1"),
    ],
)
def test_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], x: object, y: object, warning: str
) -> None:
    code, report = check(capsys, npz(tmp_path / "d.npz", x, y))
    assert code == 0
    assert any(warning in line for line in report["warnings"]), report["warnings"]


def test_a_label_below_0_may_be_one_that_a_loss_ignores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(0).random((40, 3))
    y = np.arange(40) % 2
    y[:2] = -1
    code, report = check(capsys, npz(tmp_path / "d.npz", x, y), "-o", str(tmp_path / "m.json"))
    said = "2 sample(s) have the label -1, which is no class: ignore_index=-1 of the loss leaves"
    assert (code, [line[: len(said)] for line in report["warnings"]]) == (0, [said])
    assert [(c["number"], c["count"]) for c in report["classes"]] == [(-1, 2), (0, 19), (1, 19)]
    y[0] = -2
    code, report = check(capsys, npz(tmp_path / "d.npz", x, y))
    assert code == 1
    assert (
        "labels below 0, the smallest -2: leave these samples out, or make" in report["errors"][0]
    )
    assert check(capsys, npz(tmp_path / "d.npz", x, y * 0 - 1))[0] == 0


@pytest.mark.parametrize("x", [[[-1], [2]], [[1], [2**24]]])
def test_integers_without_a_scale_that_are_no_indices_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], x: list[list[int]]
) -> None:
    code, report = check(capsys, npz(tmp_path / "d.npz", x, [0, 1]))
    assert code == 1
    assert "only uint8 has a fixed scale" in report["errors"][0]


def test_integers_may_be_indices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = check(capsys, npz(tmp_path / "d.npz", [[1], [2]], [0, 1]))
    assert code == 0
    assert "inputs are integers in 1..2: indices for nn.Embedding" in report["warnings"][0]
    assert "num_embeddings=3 or more" in report["warnings"][0]


def test_bad_lines_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "t.csv"
    table.write_text("a,l\n1,x\nfoo,y\n3,y\n")
    code, report = check(capsys, f"csv:{table}?label=l")
    assert (code, report["usable"], report["manifest"]) == (1, False, None)
    bad = {"place": "line 3", "reason": "column 'a': 'foo' is no finite number"}
    assert report["bad"] == [bad]
    code, report = check(capsys, f"csv:{table}?label=l&bad=skip")
    assert (code, report["bad_count"]) == (0, 1)
    assert main(["check-data", f"csv:{table}?label=l"]) == 1
    out = capsys.readouterr().out
    assert "bad: line 3: column 'a'" in out
    assert "verdict: a training would refuse this" in out


def test_unreadable_data_are_an_error_of_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("a,l\n")
    code, report = check(capsys, f"csv:{table}?label=l", "-o", str(tmp_path / "m.json"))
    assert code == 1
    assert "holds no sample" in report["errors"][0]
    assert not (tmp_path / "m.json").exists()
    assert main(["check-data", f"csv:{table.with_name('none')}?label=l"]) == 4


def test_a_manifest_is_no_spec_for_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = str(tmp_path / "m.json")
    assert main(["check-data", "digits", "-o", manifest]) == 0
    assert "manifest: " in capsys.readouterr().out
    assert main(["check-data", f"manifest:{manifest}"]) == 0
    assert main(["check-data", f"manifest:{manifest}", "-o", manifest + "2"]) == 2
    assert main(["check-data", f"manifest:{manifest}", "-o", manifest]) == 2
    assert main(["check-data", "random:"]) == 2
