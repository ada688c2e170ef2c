"""Metrics on outputs made by hand, and names that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtrain.errors import ArgumentError
from armtrain.runtime.metrics import as_names, metrics_of, outputs_bytes

NONE = -100
OUTPUTS = np.array(
    [[3, 1, 2, 0], [0, 1, 1, 2], [5, 5, 5, 5], [1, 2, 3, 4], [9, 0, 0, 0]], np.float32
)
LABELS = np.array([2, 2, 1, 0, 0], np.int32)


def value(name: str, ignored: int = NONE, parts: int = 1) -> Any:
    """Return a metric of the outputs above, counted in so many parts."""
    (metric,) = metrics_of(name, n_classes=4, loss="cross_entropy", ignored=ignored).values()
    for outputs, labels in zip(
        np.array_split(OUTPUTS, parts), np.array_split(LABELS, parts), strict=True
    ):
        metric.add(outputs, labels)
    return metric.value()


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize(("k", "hits"), [(1, 1), (2, 3), (3, 4), (4, 5)])
def test_top_k_takes_the_first_of_equal_outputs(k: int, hits: int, parts: int) -> None:
    assert value(f"top{k}", parts=parts) == hits / 5


def test_ignored_labels_do_not_count() -> None:
    assert value("top1", ignored=2) == 1 / 3
    assert value("confusion", ignored=2) == ((1, 0, 0, 1), (1, 0, 0, 0), (0,) * 4, (0,) * 4)


@pytest.mark.parametrize("ignored", [-1, -100, 255, 2**31 - 1])
def test_ignored_labels_need_be_no_classes(ignored: int) -> None:
    target = np.where(LABELS == 2, ignored, LABELS).astype(np.int32)
    for name in ("top1", "top3", "confusion"):
        made = metrics_of(name, n_classes=4, loss="cross_entropy", ignored=ignored)
        made[name].add(OUTPUTS, target)
        made[name].add(OUTPUTS[:1], target[:1])
        assert made[name].value() == value(name, ignored=2)


@pytest.mark.parametrize("parts", [1, 3])
def test_confusion_has_labels_in_rows(parts: int) -> None:
    expected = ((1, 0, 0, 1), (1, 0, 0, 0), (1, 0, 0, 1), (0, 0, 0, 0))
    assert value("confusion", parts=parts) == expected
    assert sum(expected[i][i] for i in range(4)) / 5 == value("top1", parts=parts)


def test_absolute_errors_are_added_in_double() -> None:
    (metric,) = metrics_of("mae", n_classes=0, loss="huber:delta=0.5", ignored=NONE).values()
    metric.add(np.full((2, 3), 1e8, np.float32), np.full((2, 3, 1), -1e8, np.float32))
    metric.add(np.full((1, 3), 0.25, np.float32), np.zeros((1, 3, 1), np.float32))
    assert metric.value() == pytest.approx((6 * 2e8 + 3 * 0.25) / 9, rel=1e-15)


def test_names_come_one_by_one_or_with_commas() -> None:
    assert as_names("top5,confusion,top5") == ("top5", "confusion")
    assert as_names(["mae"]) == as_names("mae") == ("mae",)
    assert as_names(()) == ()


@pytest.mark.parametrize("wrong", ["top", "top0", "top05", "accuracy", "", 5, None, ["top1", 2]])
def test_unknown_names_are_refused_with_the_known(wrong: object) -> None:
    with pytest.raises(ArgumentError, match="there are topK, confusion, mae, as in metrics="):
        as_names(wrong)


@pytest.mark.parametrize(
    ("name", "n_classes", "loss", "message"),
    [
        ("top5", 4, "nll", "'top5' of 4 classes; all are among the largest 4"),
        ("top1", 0, "mse", "'top1' needs labels, the targets of the plan's loss 'mse' are floats"),
        ("confusion", 0, "l1", "'confusion' needs labels"),
        ("mae", 4, "cross_entropy", "loss 'cross_entropy' does not bring together"),
        ("mae", 0, "bce_with_logits:pos_weight=2.0", "it goes with mse, l1, smooth_l1, huber"),
    ],
)
def test_what_the_plan_cannot_give_is_refused(
    name: str, n_classes: int, loss: str, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        metrics_of(name, n_classes=n_classes, loss=loss, ignored=NONE)


def test_memory_is_counted() -> None:
    made = metrics_of("top2,confusion", n_classes=4, loss="nll", ignored=NONE)
    assert outputs_bytes(made, 8, (4,)) == 8 * 4 * 20 + 16 * 48
    assert outputs_bytes({}, 8, (4,)) == 0
