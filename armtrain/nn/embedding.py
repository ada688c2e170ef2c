"""Table of vectors that are looked up by index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from armtrain.ir.graph import EmbeddingAttrs
from armtrain.ir.program import Init, InitKind
from armtrain.limits import MAX_INDICES
from armtrain.nn.arguments import Rule, positive, refuse_unless, refuse_unlike
from armtrain.nn.module import Module
from armtrain.nn.parameter import Parameter
from armtrain.nn.tensor import Tensor
from armtrain.values import integer

__all__ = ["Embedding"]


def _padding(what: str, value: object) -> int | None:
    """Return a row, counted from the end where it is negative, or None."""
    return None if value is None else integer(what, value, -MAX_INDICES, MAX_INDICES - 1)


class Embedding(Module):
    """Rows of `weight`, shape (num_embeddings, embedding_dim), by index.

    Indices are inputs of the network: whole numbers from 0 to num_embeddings - 1, exact in float32.
    Data that are all indices may be integers of any type, uint8 among them (not divided by 255).
    An index that is none is refused before anything is computed.

    The gradient is torch's of `sparse=False`: what belongs to a row is added up in the order of the
    samples, other rows have 0. Planned memory holds it for the rows of a batch alone where that
    gives the same weights (SGD without momentum and weight decay, Adagrad without weight decay),
    else for the whole table; print(plan) says which.

    Parameters
    ----------
    num_embeddings : int
        At most 2^24.
    embedding_dim : int
    padding_idx : int, optional
        A row that starts with 0 and is not trained; negative: counted from the end.
    max_norm, norm_type, scale_grad_by_freq, sparse
        Only torch's defaults are available.
    """

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    _rules: ClassVar[Mapping[str, Rule]] = {
        "num_embeddings": partial(positive, most=MAX_INDICES),
        "embedding_dim": positive,
        "padding_idx": _padding,
        "max_norm": partial(refuse_unless, only=None),
        "norm_type": partial(refuse_unless, only=2.0),
        "scale_grad_by_freq": partial(refuse_unless, only=False),
        "sparse": partial(refuse_unless, only=False),
    }

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        self._set(num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self._set(padding_idx=padding_idx, max_norm=max_norm, norm_type=norm_type)
        self._set(scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
        row = self.padding_idx = self._row()
        init = Init(InitKind.NORMAL, 0.0, 1.0)
        if row is not None:
            init = Init(InitKind.NORMAL_BUT_ROW, row, 1.0)
        self.weight = Parameter((self.num_embeddings, self.embedding_dim), init)

    def _row(self) -> int | None:
        """Return the row that is not trained, counted from the start."""
        row, rows = self.padding_idx, self.num_embeddings
        if row is None:
            return None
        what = f"Embedding({rows}, {self.embedding_dim}): padding_idx"
        return integer(what, row, -rows, rows - 1) % rows

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of shape (N, ..., embedding_dim) for indices of shape (N, ...)."""
        what = f"Embedding({self.num_embeddings}, {self.embedding_dim})"
        shape = (self.num_embeddings, self.embedding_dim)
        refuse_unlike(what, "a weight", self.weight, shape)
        return x.record(self, EmbeddingAttrs(self._row()), {"weight": self.weight})

    def extra_repr(self) -> str:
        """Return the arguments."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
