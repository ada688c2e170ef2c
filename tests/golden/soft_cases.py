"""Cross-entropy of probabilities: numbers that float32 holds, the same for PyTorch and armtrain."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.golden.layer_cases import numbers, upstream

__all__ = ["BATCHES", "CLASSES", "OPTIONS", "logits", "targets"]

BATCHES = (5, 3)
"""The planned batch and a smaller one."""
CLASSES = 6
_WEIGHT = [0.5, 2.0, 1.0, 0.0, 3.0, 0.25]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "weight": {"weight": _WEIGHT},
    "smoothing": {"label_smoothing": 0.25},
    "both": {"weight": _WEIGHT, "label_smoothing": 0.25},
}


def logits(n: int) -> np.ndarray:
    """Return what a network gives for n samples."""
    return 2.0 * numbers("logits", (max(BATCHES), CLASSES))[:n]


def targets(n: int) -> np.ndarray:
    """Return the targets of n samples: a sure one, and others that do not add up to 1."""
    made = upstream((max(BATCHES), CLASSES))[:n]
    made[0] = np.eye(CLASSES)[2]
    return made
