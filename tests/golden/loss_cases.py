"""Losses whose values and gradients are stored from PyTorch: one table for both sides.

Outputs and targets come from a counter-based generator, so nothing but results has to be stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from armtrain.runtime.reference.random import stream_of_name, uniform

__all__ = ["BATCHES", "FEATURES", "LOSSES", "LossCase", "outputs", "targets"]

BATCHES = (5, 3)
"""The planned batch and a smaller one."""
FEATURES = 6
PLACES = 2
SEED = 2026


@dataclass(frozen=True)
class LossCase:
    """One loss with torch's arguments.

    Attributes
    ----------
    loss : str
        Name in `torch.nn` and `armtrain.nn`.
    options : dict
    targets : str
        'values', 'unit' (in [0, 1]), 'probabilities', 'logarithms', 'labels' or 'places': labels
        of PLACES places of a sample, whose features are as many numbers for each class.
    """

    loss: str
    options: dict[str, Any] = field(default_factory=dict)
    targets: str = "values"

    @property
    def labels(self) -> bool:
        """Whether targets are integers for torch."""
        return self.targets in ("labels", "places")

    @property
    def shape(self) -> tuple[int, ...]:
        """What an output is for one sample."""
        return (FEATURES // PLACES, PLACES) if self.targets == "places" else (FEATURES,)

    def torch_options(self, tensor: Callable[[Any], Any]) -> dict[str, Any]:
        """Return the options with lists as tensors of doubles; torch looks at targets instead."""
        return {
            name: tensor(np.array(value)) if isinstance(value, list) else value
            for name, value in self.options.items()
            if name != "probabilities"
        }


WEIGHTS = [0.5, 2.0, 1.0, 0.0, 3.0, 0.25]
SOFT = {"probabilities": True}
ALL = {"weight": WEIGHTS, "ignore_index": 4}
LOSSES: dict[str, LossCase] = {
    "mse": LossCase("MSELoss"),
    "l1": LossCase("L1Loss"),
    "smooth_l1": LossCase("SmoothL1Loss"),
    "smooth_l1_beta": LossCase("SmoothL1Loss", {"beta": 0.3}),
    "smooth_l1_zero": LossCase("SmoothL1Loss", {"beta": 0.0}),
    "huber": LossCase("HuberLoss"),
    "huber_delta": LossCase("HuberLoss", {"delta": 0.3}),
    "kl_div": LossCase("KLDivLoss", {}, "probabilities"),
    "kl_div_batchmean": LossCase("KLDivLoss", {"reduction": "batchmean"}, "probabilities"),
    "kl_div_log_target": LossCase("KLDivLoss", {"log_target": True}, "logarithms"),
    "bce": LossCase("BCEWithLogitsLoss", {}, "unit"),
    "bce_one_weight": LossCase("BCEWithLogitsLoss", {"pos_weight": [2.5]}, "unit"),
    "bce_weights": LossCase("BCEWithLogitsLoss", {"pos_weight": WEIGHTS}, "unit"),
    "cross_entropy": LossCase("CrossEntropyLoss", {}, "labels"),
    "cross_entropy_weight": LossCase("CrossEntropyLoss", {"weight": WEIGHTS}, "labels"),
    "cross_entropy_ignore": LossCase("CrossEntropyLoss", {"ignore_index": 4}, "labels"),
    "cross_entropy_smoothing": LossCase("CrossEntropyLoss", {"label_smoothing": 0.1}, "labels"),
    "cross_entropy_all": LossCase("CrossEntropyLoss", {**ALL, "label_smoothing": 0.3}, "labels"),
    "cross_entropy_soft": LossCase("CrossEntropyLoss", SOFT, "probabilities"),
    "cross_entropy_soft_all": LossCase(
        "CrossEntropyLoss",
        {**SOFT, "weight": WEIGHTS, "label_smoothing": 0.3},
        "probabilities",
    ),
    "cross_entropy_places": LossCase("CrossEntropyLoss", {}, "places"),
    "cross_entropy_places_all": LossCase(
        "CrossEntropyLoss",
        {"weight": WEIGHTS[:3], "ignore_index": 2, "label_smoothing": 0.3},
        "places",
    ),
    "nll": LossCase("NLLLoss", {}, "labels"),
    "nll_all": LossCase("NLLLoss", ALL, "labels"),
}


def _numbers(name: str, n: int) -> np.ndarray:
    """Return n rows of numbers in [0, 1); fewer rows are the first of more."""
    return uniform(SEED, stream_of_name(name), n * FEATURES).reshape(n, FEATURES)


def outputs(n: int) -> np.ndarray:
    """Return what a network gives for n samples."""
    return 6.0 * _numbers("outputs", n) - 3.0


def targets(case: LossCase, n: int) -> np.ndarray:
    """Return the targets of n samples."""
    numbers = _numbers("targets", n)
    probabilities = numbers / numbers.sum(axis=1, keepdims=True)
    probabilities[0] = np.eye(FEATURES)[2]  # a sure one: log 0 is met
    made: dict[str, np.ndarray] = {
        "values": 6.0 * numbers - 3.0,
        "unit": numbers,
        "probabilities": probabilities,
        "logarithms": np.log(numbers / numbers.sum(axis=1, keepdims=True)),
        "labels": (numbers[:, 0] * FEATURES).astype(np.int32),
        "places": (numbers[:, :PLACES] * FEATURES // PLACES).astype(np.int32),
    }
    return made[case.targets]
