"""Metrics and balanced weights against PyTorch's stored ones, counted in uneven batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtrain.data import class_weights
from armtrain.runtime.metrics import metrics_of
from tests.golden.metric_cases import CLASSES, SAMPLES, labels, outputs, values

STORED = json.loads((Path(__file__).parent / "metrics.json").read_text())


def counted(name: str, loss: str, targets: np.ndarray, ignored: int = -100) -> Any:
    """Return a metric of the stored outputs, in batches of 16."""
    n_classes = CLASSES if targets.ndim == 1 else 0
    made = metrics_of(name, n_classes=n_classes, loss=loss, ignored=ignored)
    for first in range(0, SAMPLES, 16):
        made[name].add(outputs()[first : first + 16], targets[first : first + 16])
    return made[name].value()


@pytest.mark.parametrize("ignored", [-100, 1])
@pytest.mark.parametrize("name", ["top1", "top2", "top4", "confusion"])
def test_metrics_of_labels(name: str, ignored: int) -> None:
    found = counted(name, "cross_entropy", labels(), ignored)
    assert np.array(found).tolist() == STORED[str(ignored)][name]


def test_mean_absolute_error() -> None:
    assert counted("mae", "l1", values()) == pytest.approx(STORED["mae"], rel=1e-14)


def test_balanced_weights() -> None:
    assert class_weights(labels()) == pytest.approx(STORED["class_weights"], rel=1e-15)
