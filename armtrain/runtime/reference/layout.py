"""Between the user's arrays (torch's order) and arrays in arena order."""

from __future__ import annotations

import numpy as np

from armtrain.ir.program import Tensor
from armtrain.runtime.reference.arena import Array

__all__ = ["dims_of", "planned_count", "to_arena", "to_user"]


def planned_count(tensor: Tensor) -> int:
    """Return the planned batch of a batched tensor, else its first dimension."""
    return tensor.dims[0] if tensor.dims else 1


def dims_of(tensor: Tensor, n: int) -> tuple[int, ...]:
    """Return the arena dimensions at an actual batch of `n`."""
    return (n, *tensor.dims[1:]) if tensor.batched else tensor.dims


def _view(tensor: Tensor, n: int) -> tuple[int, ...]:
    """Return the layout's view at an actual batch of `n`."""
    view = tensor.layout.view
    return (n, *view[1:]) if tensor.batched else view


def to_arena(tensor: Tensor, values: Array, n: int) -> Array:
    """Return an array in the user's layout as the arena holds it (n: 0 for the planned batch)."""
    count = n or planned_count(tensor)
    viewed = values.reshape(_view(tensor, count))
    return viewed.transpose(tensor.layout.perm).reshape(dims_of(tensor, count))


def to_user(tensor: Tensor, values: Array, n: int) -> Array:
    """Return an arena array in the user's layout (n: 0 for the planned batch)."""
    count = n or planned_count(tensor)
    view, perm, shape = _view(tensor, count), tensor.layout.perm, tensor.layout.shape
    viewed = values.reshape([view[axis] for axis in perm]).transpose(np.argsort(perm))
    return viewed.reshape((count, *shape[1:]) if tensor.batched else shape)
