"""Shapes of what operators and methods of tensors give, or a refusal that says what would fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from armtrain.errors import ShapeError
from armtrain.ir.graph import (
    CatAttrs,
    MaskedSoftmaxAttrs,
    MatmulAttrs,
    NodeKind,
    PermuteAttrs,
    ReduceAttrs,
    ReshapeAttrs,
    SliceAttrs,
)
from armtrain.limits import MAX_INDICES

__all__ = ["TENSOR_RULES"]

Shape = tuple[int, ...]
Params = Mapping[str, Shape]


def _reshape(what: str, inputs: tuple[Shape, ...], attrs: ReshapeAttrs, params: Params) -> Shape:
    """As many elements under another shape."""
    if prod(attrs.shape) != prod(inputs[0]):
        raise ShapeError(
            f"{what}: a value of shape {inputs[0]} has not the elements of {attrs.shape}"
        )
    return attrs.shape


def _permute(what: str, inputs: tuple[Shape, ...], attrs: PermuteAttrs, params: Params) -> Shape:
    """Return the same dimensions in another order, the batch first."""
    shape = inputs[0]
    if sorted(attrs.dims) != list(range(len(shape))) or attrs.dims[0] != 0:
        raise ShapeError(
            f"{what}: dimensions {attrs.dims} of a value of shape {shape} are not available: each "
            "once, the batch first"
        )
    return tuple(shape[d] for d in attrs.dims)


def _slice(what: str, inputs: tuple[Shape, ...], attrs: SliceAttrs, params: Params) -> Shape:
    """Take some places of a dimension behind the batch."""
    shape, dim = inputs[0], attrs.dim
    last = attrs.start + (attrs.length - 1) * attrs.step
    if not 1 <= dim < len(shape) or min(attrs.length, attrs.step) < 1 or not 0 <= last < shape[dim]:
        raise ShapeError(
            f"{what}: {attrs.length} places from {attrs.start} on, every {attrs.step}, of "
            f"dimension {dim} of a value of shape {shape} are not there"
        )
    return *shape[:dim], attrs.length, *shape[dim + 1 :]


def _cat(what: str, inputs: tuple[Shape, ...], attrs: CatAttrs, params: Params) -> Shape:
    """Values that differ in one dimension behind the batch only."""
    first, dim = inputs[0], attrs.dim
    others = {(*s[:dim], *s[dim + 1 :]) if len(s) == len(first) else s for s in inputs}
    if not 1 <= dim < len(first) or len(others) > 1:
        raise ShapeError(
            f"{what}: values of shape {', '.join(map(str, inputs))} cannot be joined along "
            f"dimension {dim}; all others must be the same, and samples of a batch stay apart"
        )
    return *first[:dim], sum(s[dim] for s in inputs), *first[dim + 1 :]


def _same(what: str, inputs: tuple[Shape, ...], attrs: Any, params: Params) -> Shape:
    """Return the same shape."""
    return inputs[0]


def _combine(what: str, inputs: tuple[Shape, ...], attrs: Any, params: Params) -> Shape:
    """Dimensions of the second value or the parameter are those of the first one or 1."""
    a, other = inputs[0], inputs[1] if len(inputs) > 1 else params["other"]
    own = len(inputs) == 1
    whole = other if len(other) == len(a) or not own else (*(1,) * (len(a) - len(other)), *other)
    fits = len(whole) == len(a) and all(n in (1, m) for m, n in zip(a, whole, strict=True))
    if not fits or whole[0] != (1 if own else a[0]):
        kind = "a parameter" if own else "a value"
        raise ShapeError(
            f"{what}: cannot combine a value of shape {a} with {kind} of shape {other}: one of "
            "both has the shape of the result, the other one has 1 or the same in every dimension "
            "but the batch's; .unsqueeze makes a dimension of 1"
        )
    return a


def _reduce(what: str, inputs: tuple[Shape, ...], attrs: ReduceAttrs, params: Params) -> Shape:
    """Make dimensions behind the batch 1, or drop them."""
    shape, gone = inputs[0], set(attrs.dims)
    if not gone or not gone <= set(range(1, len(shape))):
        raise ShapeError(
            f"{what}: dimensions {attrs.dims} of a value of shape {shape} cannot be summed up: "
            "name some behind the batch, whose samples stay apart"
        )
    if attrs.keepdim:
        return tuple(1 if d in gone else n for d, n in enumerate(shape))
    if len(gone) == len(shape) - 1:
        raise ShapeError(f"{what}: one number a sample is left of {shape}; use keepdim=True")
    return tuple(n for d, n in enumerate(shape) if d not in gone)


def _matmul(what: str, inputs: tuple[Shape, ...], attrs: MatmulAttrs, params: Params) -> Shape:
    """(N, ..., M, K) and (N, ..., K, P) to (N, ..., M, P)."""
    x, z = (
        (*shape[:-2], shape[-1], shape[-2]) if turned and len(shape) > 1 else shape
        for shape, turned in zip(inputs, attrs.transposed, strict=True)
    )
    if len(x) < 3 or len(x) != len(z) or x[:-2] != z[:-2] or x[-1] != z[-2]:
        raise ShapeError(
            f"{what}: cannot multiply values of shape {x} and {z}; both need the same dimensions "
            "(N, ...) and then (M, K) and (K, P); nn.Linear multiplies by a weight"
        )
    return *x[:-1], z[-1]


def _masked_softmax(
    what: str, inputs: tuple[Shape, ...], attrs: MaskedSoftmaxAttrs, params: Params
) -> Shape:
    """(N, ..., L, S) with a mask (N, S)."""
    shape, *masks = inputs
    if len(shape) < 3:
        raise ShapeError(f"{what} needs scores of shape (N, ..., L, S), its input has {shape}")
    for mask in masks:
        if mask != (shape[0], shape[-1]):
            raise ShapeError(
                f"{what}: mask of shape {mask} for scores of shape {shape}; it needs "
                f"{(shape[0], shape[-1])}, a number per key"
            )
    return shape


def _embedding(what: str, inputs: tuple[Shape, ...], attrs: Any, params: Params) -> Shape:
    """Put the columns of a table behind the dimensions of its indices."""
    shape, (rows, columns) = inputs[0], params["weight"]
    if rows > MAX_INDICES:
        raise ShapeError(
            f"{what}: {rows} embeddings, {MAX_INDICES} at most have indices that are exact in "
            "float32; hash rare ones to a common index"
        )
    if len(shape) > _MOST_INDEX_DIMS:
        raise ShapeError(
            f"{what} takes indices of at most {_MOST_INDEX_DIMS} dimensions, its input has shape "
            f"{shape}; flatten some of them first"
        )
    return *shape, columns


_MOST_INDEX_DIMS = 4

TENSOR_RULES: dict[NodeKind, Callable[[str, tuple[Shape, ...], Any, Params], Shape]] = {
    NodeKind.RESHAPE: _reshape,
    NodeKind.PERMUTE: _permute,
    NodeKind.SLICE: _slice,
    NodeKind.CAT: _cat,
    NodeKind.COMBINE: _combine,
    NodeKind.AFFINE: _same,
    NodeKind.POWER: _same,
    NodeKind.FUNCTION: _same,
    NodeKind.REDUCE: _reduce,
    NodeKind.MATMUL: _matmul,
    NodeKind.MASKED_SOFTMAX: _masked_softmax,
    NodeKind.EMBEDDING: _embedding,
}
