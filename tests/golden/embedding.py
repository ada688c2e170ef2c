"""Networks with tables of rows, trained by PyTorch in double; `nn` is torch.nn or armtrain.nn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from armtrain.runtime.reference.random import uniform

__all__ = ["CASES", "PLANNED", "WORDS", "EmbeddingCase", "batches"]

ROWS, WORDS, WIDTH = 6, 4, 3
PLANNED = 5
SIZES = (5, 5, 3)
"""Samples of the batches, one a step."""


def padded(nn: Any) -> Any:
    """Return a classifier of words, one of which means nothing."""
    table = nn.Embedding(ROWS, WIDTH, padding_idx=-2)
    return nn.Sequential(table, nn.Tanh(), nn.Flatten(), nn.Linear(WORDS * WIDTH, ROWS))


def tied(nn: Any) -> Any:
    """Return a model of the next word whose last layer has the table as its weight."""

    class Tied(nn.Module):  # type: ignore[misc]
        """The table is used three times."""

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(ROWS, WIDTH, padding_idx=1)
            self.last = nn.Linear(WIDTH, ROWS)
            self.last.weight = self.table.weight

        def forward(self, x: Any) -> Any:
            """Return logits."""
            first, second = self.table(x[:, 0]), self.table(x[:, 1:])
            return self.last((first * second[:, 0] + second[:, 2]).tanh())

    return Tied()


@dataclass(frozen=True)
class EmbeddingCase:
    """A network and how it is trained."""

    build: Callable[[Any], Any]
    optimizer: str
    options: dict[str, Any] = field(default_factory=dict)
    clip_norm: float | None = None


CASES = {
    "padded_momentum": EmbeddingCase(
        padded, "SGD", {"lr": 0.3, "momentum": 0.9, "weight_decay": 0.1}
    ),
    "padded_sgd_clipped": EmbeddingCase(padded, "SGD", {"lr": 0.3}, clip_norm=0.2),
    "padded_adam": EmbeddingCase(padded, "Adam", {"lr": 0.02}),
    "tied_adamw_clipped": EmbeddingCase(tied, "AdamW", {"lr": 0.02}, clip_norm=0.2),
    "tied_adagrad": EmbeddingCase(tied, "Adagrad", {"lr": 0.05}),
}


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    """Return indices and labels of every step; the words of the first sample are all the same."""
    result = []
    for step, n in enumerate(SIZES):
        numbers = np.floor(uniform(step, 7, n * (WORDS + 1)) * ROWS).astype(np.int64)
        x = numbers[n:].reshape(n, WORDS)
        x[0] = 2
        result.append((x, numbers[:n]))
    return result
