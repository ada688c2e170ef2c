"""Balanced weights of classes, and labels that have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtrain import nn
from armtrain.cli.main import main
from armtrain.data import class_weights
from armtrain.errors import ArgumentError, DataError

LABELS = [0, 0, 0, 1, 2, 2, 0, 0]
WEIGHTS = (8 / 15, 8 / 3, 8 / 6)


@pytest.mark.parametrize(
    "labels",
    [LABELS, np.array(LABELS, np.uint8), np.array(LABELS)[:, np.newaxis], tuple(LABELS)],
    ids=["list", "bytes", "column", "tuple"],
)
def test_weights_of_labels(labels: Any) -> None:
    weights = class_weights(labels)
    assert weights == pytest.approx(WEIGHTS, rel=1e-15)
    assert np.mean([weights[label] for label in LABELS]) == pytest.approx(1.0, rel=1e-15)
    assert nn.CrossEntropyLoss(weight=weights).options["weight"] == weights


def test_labels_are_counted_in_blocks() -> None:
    labels = np.arange(1_000_003, dtype=np.int64) % 3
    expected = [1_000_003 / (3 * n) for n in (333_335, 333_334, 333_334)]
    assert class_weights(labels) == pytest.approx(expected, rel=1e-15)


def test_a_spec_is_read_and_its_class_names_count(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("a,kind\n1,x\n2,y\n3,x\n4,x\n")
    assert class_weights(f"csv:{table}?label=kind") == pytest.approx((4 / 6, 4 / 2))
    assert len(class_weights("digits")) == 10


@pytest.mark.parametrize(
    ("labels", "n_classes", "error", "message"),
    [
        ([0, 2], None, ArgumentError, r"of 3 classes 1 have no samples \(1\)"),
        ([0, 1], 4, ArgumentError, r"of 4 classes 2 have no samples \(2, 3\)"),
        ([], None, ArgumentError, "0 classes|integers are needed"),
        ([0, 1, 2], 2, DataError, r"row 2 \(counted from 0\) is 2; labels must lie in 0..1"),
        ([0, -1], None, DataError, r"row 1 .* is -1.* as class_weights\(y\[y != -1\]\)"),
        ([0, 70_000], None, DataError, r"is 70000; labels must lie in 0..65471"),
        ([0.5, 1.0], None, DataError, "integers are needed"),
        (np.eye(3, dtype=np.int64), None, DataError, "argmax"),
        ([0, 1], 0, ArgumentError, "n_classes needs an integer from 1"),
    ],
    ids=str,
)
def test_what_has_no_weights_is_refused(
    labels: Any, n_classes: int | None, error: type[Exception], message: str
) -> None:
    with pytest.raises((error, DataError), match=message):
        class_weights(labels, n_classes=n_classes)


def test_data_without_labels_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 2), np.float32))
    with pytest.raises(DataError, match="no labels"):
        class_weights(f"npz:{tmp_path / 'x.npz'}")


def test_check_data_prints_them_for_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(tmp_path / "d.npz")
    np.savez(data, x=np.random.default_rng(1).random((8, 2)), y=np.array(LABELS))
    main(["check-data", f"npz:{data}"])
    (line,) = (t for t in capsys.readouterr().out.splitlines() if t.startswith("balanced: "))
    text = line.removeprefix("balanced: --loss ")
    loss = nn.parse_loss(text)
    assert loss.options["weight"] == pytest.approx(WEIGHTS, rel=1e-3)
    main(["check-data", f"npz:{data}", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["balanced_weights"] == list(class_weights(LABELS))
    np.savez(data, x=np.random.default_rng(1).random((8, 2)), y=np.array(LABELS) * 2)
    main(["check-data", f"npz:{data}", "--json"])
    assert json.loads(capsys.readouterr().out)["balanced_weights"] is None
