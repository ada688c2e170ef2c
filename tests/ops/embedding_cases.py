"""Rows of tables by index: cases of the table in `cases.py`.

Tables are small, so that batches name rows more than once and leave others out. None has a
padding, whose gradient is no derivative: the golden values have.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from armtrain import nn, optim
from armtrain.nn.functional import cat
from tests.ops.case import CLASSES, Case

__all__ = ["EMBEDDINGS"]

_ROWS, _MANY_ROWS = CLASSES, 16


def indices(normal: Any) -> Any:
    """Return row numbers, the first sample's all the same."""
    numbers = np.floor(np.abs(normal) * 64.0) % _ROWS
    numbers[0] = 1.0
    return numbers


def index_and_number(normal: Any) -> Any:
    """Return samples of two indices and two numbers."""
    return np.concatenate([indices(normal[:, :2]), normal[:, 2:]], axis=1)


class Ratings(nn.Module):
    """Two tables beside numbers: every input is a slice."""

    def __init__(self) -> None:
        super().__init__()
        self.user = nn.Embedding(_ROWS, 3)
        self.item = nn.Embedding(_ROWS, 20)
        self.last = nn.Linear(25, 2)

    def forward(self, x: Any) -> Any:
        """Return predictions."""
        parts = [self.user(x[:, 0]), self.item(x[:, 1:2]).squeeze(1), x[:, 2:]]
        return self.last(cat(parts, 1).tanh())


def few_of_many(normal: Any) -> Any:
    """Return numbers of a larger table's rows: no more than 5 of them, so that some come twice."""
    return 3.0 * indices(normal) + 1.0


class Large(nn.Module):
    """Two tables with more rows than a batch has indices; a part of one's rows is added, too."""

    def __init__(self) -> None:
        super().__init__()
        self.word = nn.Embedding(_MANY_ROWS, 3)
        self.user = nn.Embedding(_MANY_ROWS, 20)
        self.last = nn.Linear(26, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        words = self.word(x[:, 1:])
        parts = [self.user(x[:, 0]), words.tanh().flatten(1)]
        return self.last(cat(parts, 1)) + words[:, 0, :1]


class Tied(nn.Module):
    """A table that is the weight of the last layer, too, and is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(_ROWS, 3)
        self.last = nn.Linear(3, _ROWS)
        self.last.weight = self.table.weight

    def forward(self, x: Any) -> Any:
        """Return logits."""
        return self.last((self.table(x[:, 0]) * self.table(x[:, 1]) + self.table(x[:, 2])).tanh())


class Permuted(nn.Module):
    """Indices of a table that are read in another order than they lie."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(_ROWS, 3)
        self.last = nn.Linear(18, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        return self.last((self.table(x.transpose(1, 2)[:, ::2]).tanh()).flatten(1))


def words(**more: Any) -> Case:
    """Return a case of three indices a sample."""
    return Case(
        lambda: nn.Sequential(
            *(nn.Embedding(_ROWS, 3), nn.Tanh(), nn.Flatten()),
            nn.Linear(9, CLASSES),
        ),
        (3,),
        inputs=indices,
        **more,
    )


EMBEDDINGS = {
    "embedding": words(),
    "embedding_frozen": words(frozen=("0.weight",)),
    "embedding_ratings": Case(
        Ratings, (4,), (2,), inputs=index_and_number, optimizer=lambda: optim.AdamW(lr=0.01)
    ),
    "embedding_tied": Case(
        Tied, (3,), inputs=indices, optimizer=lambda: optim.Adam(lr=0.01), clip_norm=0.1
    ),
    "embedding_rows": Case(Large, (3,), inputs=few_of_many, clip_norm=0.1),
    "embedding_rows_adagrad": Case(
        Large,
        (3,),
        inputs=few_of_many,
        optimizer=lambda: optim.Adagrad(lr=0.1, lr_decay=0.1),
        clip_value=0.02,
    ),
    "embedding_permuted": Case(Permuted, (2, 5), inputs=indices),
}
