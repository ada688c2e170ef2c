"""Outputs, labels and values whose metrics are stored from PyTorch: the same for both sides."""

from __future__ import annotations

import numpy as np

from armtrain.runtime.reference.random import stream_of_name, uniform

__all__ = ["CLASSES", "SAMPLES", "labels", "outputs", "values"]

SAMPLES, CLASSES, SEED = 60, 5, 2026


def outputs(name: str = "outputs") -> np.ndarray:
    """Return float32 outputs, one for each class of every sample, no two of them equal."""
    numbers = uniform(SEED, stream_of_name(name), SAMPLES * CLASSES)
    return (6.0 * numbers - 3.0).astype(np.float32).reshape(SAMPLES, CLASSES)


def labels() -> np.ndarray:
    """Return the label of every sample; the last class is rare."""
    numbers = uniform(SEED, stream_of_name("labels"), SAMPLES)
    return (numbers * numbers * CLASSES).astype(np.int32)


def values() -> np.ndarray:
    """Return targets of the outputs' shape."""
    return outputs("values")
