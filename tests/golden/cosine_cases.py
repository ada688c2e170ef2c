"""Pairs whose cosines and losses of them are stored from PyTorch: the same for both sides."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.golden.layer_cases import numbers

__all__ = ["BATCHES", "FEATURES", "MARGINS", "SIGNS", "cosines", "pairs"]

BATCHES = (5, 3)
"""The planned batch and a smaller one."""
FEATURES = 6
MARGINS = (0.0, 0.3, -0.5)
SIGNS = np.array([[1.0], [-1.0], [-1.0], [1.0], [-1.0]])


def pairs(n: int, *, vanishing: bool = False) -> np.ndarray:
    """Return n pairs (n, 2, features); with `vanishing` the first one's second value is 0."""
    made = numbers("pairs", (max(BATCHES), 2, FEATURES))[:n].copy()
    made[0, 1] *= not vanishing
    return made


def cosines(nn: Any) -> Any:
    """Return a module of torch.nn or armtrain.nn: pairs (N, 2, features) to cosines."""

    class Cosines(nn.Module):  # type: ignore[misc]
        """The cosine of each pair."""

        def __init__(self) -> None:
            super().__init__()
            self.similarity = nn.CosineSimilarity()

        def forward(self, x: Any) -> Any:
            """Return (N, 1), in torch (N,)."""
            return self.similarity(x[:, 0], x[:, 1])

    return Cosines()
