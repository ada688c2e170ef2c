"""Cases of a label for each place of a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from armtrain import nn
from tests.ops.case import CLASSES, Case, Part

__all__ = ["PLACES"]


def labels(normal: Any) -> Any:
    """Return classes, as floats."""
    return np.floor(np.abs(normal) * 10.0) % CLASSES


class Places(nn.Module):
    """Logits (N, classes, places)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits, as they lie the classes last."""
        return self.last(self.first(x).tanh()).transpose(1, 2)


def labelled(build: Any, shape: tuple[int, ...], places: tuple[int, ...], **more: Any) -> Case:
    """Return a case of a label for each place."""
    loss = nn.CrossEntropyLoss(**more)
    return Case(build, shape, target_shape=places, loss=lambda: loss, targets=labels)


PLACES = {
    "places": labelled(Places, (4, 3), (4,)),
    "places_weighted": labelled(
        *(Places, (4, 3), (4,)),
        weight=(0.5, 2.0, 1.0, 0.0, 3.0),
        ignore_index=1,
        label_smoothing=0.3,
    ),
    "places_of_an_image": labelled(
        lambda: nn.Sequential(nn.Conv2d(2, 3, 2), nn.Tanh(), nn.Conv2d(3, CLASSES + 2, 2), Part()),
        *((2, 4, 5), (2, 3)),
    ),
    "places_of_a_plain_value": labelled(
        lambda: nn.Sequential(nn.Linear(6, CLASSES * 4), nn.Unflatten(1, (CLASSES, 2, 2))),
        *((6,), (2, 2)),
    ),
}
