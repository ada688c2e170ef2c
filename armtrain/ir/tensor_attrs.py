"""Attributes of what operators and methods of tensors compute, and of changes of order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from armtrain.ir.arithmetic import Combine, Function
from armtrain.ir.node_kinds import NodeKind

__all__ = [
    "AffineAttrs",
    "CatAttrs",
    "CombineAttrs",
    "EmbeddingAttrs",
    "FunctionAttrs",
    "MaskedSoftmaxAttrs",
    "MatmulAttrs",
    "PermuteAttrs",
    "PowerAttrs",
    "ReduceAttrs",
    "ReshapeAttrs",
    "SliceAttrs",
    "TensorAttrs",
    "ToNchwAttrs",
    "ToNhwcAttrs",
]


@dataclass(frozen=True)
class ToNchwAttrs:
    """An image brought from channels-last into torch's order; the value is the same."""

    kind: ClassVar[NodeKind] = NodeKind.TO_NCHW


@dataclass(frozen=True)
class ToNhwcAttrs:
    """The inverse of `ToNchwAttrs`."""

    kind: ClassVar[NodeKind] = NodeKind.TO_NHWC


@dataclass(frozen=True)
class ReshapeAttrs:
    """The elements in torch's order under another shape, whose first dimension is rows of samples.

    `shape` at the planned batch: N k rows are k rows of every sample.
    """

    kind: ClassVar[NodeKind] = NodeKind.RESHAPE
    shape: tuple[int, ...]


@dataclass(frozen=True)
class PermuteAttrs:
    """Dimension i of the value is dimension `dims[i]` of the input; the first one stays."""

    kind: ClassVar[NodeKind] = NodeKind.PERMUTE
    dims: tuple[int, ...]


@dataclass(frozen=True)
class SliceAttrs:
    """`length` places of one dimension from `start` on, every `step`-th of them."""

    kind: ClassVar[NodeKind] = NodeKind.SLICE
    dim: int
    start: int
    length: int
    step: int = 1


@dataclass(frozen=True)
class CombineAttrs:
    """Arithmetic of a value and another one or a parameter ('other'), which may be broadcast."""

    kind: ClassVar[NodeKind] = NodeKind.COMBINE
    how: Combine


@dataclass(frozen=True)
class AffineAttrs:
    """scale x + shift."""

    kind: ClassVar[NodeKind] = NodeKind.AFFINE
    scale: float
    shift: float


@dataclass(frozen=True)
class PowerAttrs:
    """x^(halves / 2)."""

    kind: ClassVar[NodeKind] = NodeKind.POWER
    halves: int


@dataclass(frozen=True)
class FunctionAttrs:
    """A function of each element."""

    kind: ClassVar[NodeKind] = NodeKind.FUNCTION
    which: Function


@dataclass(frozen=True)
class ReduceAttrs:
    """Sum or mean over dimensions behind the batch, which stay as 1 or go."""

    kind: ClassVar[NodeKind] = NodeKind.REDUCE
    dims: tuple[int, ...]
    keepdim: bool
    mean: bool


@dataclass(frozen=True)
class MatmulAttrs:
    """Products of the matrices in the last two dimensions, of what is transposed there."""

    kind: ClassVar[NodeKind] = NodeKind.MATMUL
    transposed: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class CatAttrs:
    """Values one after the other along one dimension."""

    kind: ClassVar[NodeKind] = NodeKind.CAT
    dim: int


@dataclass(frozen=True)
class MaskedSoftmaxAttrs:
    """Shares of e^x along the last dimension of what counts, 0 elsewhere.

    Of a second input, the mask (N, S), everything but 0 counts; if `causal`, place j of the last
    dimension counts in row i of the one before it where j <= i.
    """

    kind: ClassVar[NodeKind] = NodeKind.MASKED_SOFTMAX
    causal: bool


@dataclass(frozen=True)
class EmbeddingAttrs:
    """Parameter: weight (V, D), whose rows x names; row `padding` is not trained, None: all are."""

    kind: ClassVar[NodeKind] = NodeKind.EMBEDDING
    padding: int | None


TensorAttrs: TypeAlias = (
    ToNchwAttrs
    | ToNhwcAttrs
    | ReshapeAttrs
    | PermuteAttrs
    | SliceAttrs
    | CombineAttrs
    | AffineAttrs
    | PowerAttrs
    | FunctionAttrs
    | ReduceAttrs
    | MatmulAttrs
    | CatAttrs
    | MaskedSoftmaxAttrs
    | EmbeddingAttrs
)
