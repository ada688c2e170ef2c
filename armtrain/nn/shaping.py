"""What a change of shape means: checked dimensions and sizes of symbolic tensors, as in torch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from armtrain.errors import ShapeError
from armtrain.ir.graph import SliceAttrs
from armtrain.values import as_integer

__all__ = ["checked_dim", "flat_list", "indexed", "resolved_shape", "sizes_of_parts"]

Shape = tuple[int, ...]


def flat_list(given: Sequence[object]) -> list[object]:
    """Return the arguments of `f(1, 2)` or `f((1, 2))`."""
    one = given[0] if len(given) == 1 else None
    return list(one) if isinstance(one, tuple | list) else list(given)


def checked_dim(what: str, dim: object, shape: Shape, first: int = 1, more: int = 0) -> int:
    """Return a dimension of a value counted from the front.

    Parameters
    ----------
    what : str
        The operation, for the message.
    dim : object
        Negative ones count from the end.
    shape : tuple of int
    first : int
        The first dimension that is possible; 0 is the batch, whose samples stay apart.
    more : int
        Dimensions that there will be besides those of `shape`.
    """
    place, rank = as_integer(dim), len(shape) + more
    inside = place is not None and -rank <= place < rank
    if place is None or not inside or place % rank < first:
        batch = ": samples of a batch stay apart" if inside else ""
        raise ShapeError(
            f"{what}: dimension {dim!r:.80} of a value of shape {shape} is not available{batch}; "
            f"use {first} to {rank - 1}, or -1 for the last"
        )
    return place % rank


def resolved_shape(shape: Shape, given: Sequence[object], batch: int) -> Shape:
    """Return a requested shape with -1 replaced.

    Raises
    ------
    ShapeError
        Another number of elements, or a first dimension that no batch fills with whole rows.
    """
    dims = [as_integer(n) for n in given]
    if None in dims:
        raise ShapeError(
            f"cannot reshape {shape} to {tuple(given)!r:.80}: sizes are integers, -1 for the one "
            "that follows"
        )
    sizes = [n for n in dims if n is not None]
    known, total = prod(n for n in sizes if n != -1), prod(shape)
    if sizes.count(-1) == 1 and known > 0 and total % known == 0:
        sizes[sizes.index(-1)] = total // known
    if min(sizes, default=0) < 1 or prod(sizes) != total:
        raise ShapeError(
            f"cannot reshape {shape} ({total} elements) to {tuple(sizes)}; use .flatten(1) for "
            f"{(shape[0], prod(shape[1:]))}"
        )
    if len(sizes) > _LONGEST or sizes[0] % batch:
        raise ShapeError(
            f"cannot reshape {shape} to {tuple(sizes)}: a shape has 1 to {_LONGEST} dimensions, "
            f"the first one {batch} samples or {batch} times the rows of one, so that smaller "
            "batches run too; keep the batch first, as in .reshape(x.size(0), ...)"
        )
    return tuple(sizes)


_LONGEST = 6


def _bounds(entry: slice, size: int) -> tuple[int, int, int] | None:
    """Return start, length and step of a slice of integers with a step above 0."""
    parts = [None if n is None else as_integer(n) for n in (entry.start, entry.stop, entry.step)]
    given = (entry.start, entry.stop, entry.step)
    if any(p is None and n is not None for p, n in zip(parts, given, strict=True)):
        return None
    start, stop, step = parts
    if step is not None and step < 1:
        return None
    places = range(size)[start:stop:step]
    return places.start, len(places), places.step


def indexed(shape: Shape, index: object) -> tuple[list[SliceAttrs], Shape]:
    """Return the slices that `x[index]` takes, and the shape of what they leave.

    Raises
    ------
    ShapeError
        Anything but integers, slices, None and one `...`, or an index of the batch.
    """
    entries = list(index) if isinstance(index, tuple) else [index]
    used = sum(e is not None and e is not Ellipsis for e in entries)
    if sum(e is Ellipsis for e in entries) > 1 or used > len(shape):
        raise ShapeError(f"cannot index a value of shape {shape} by {index!r:.80}")
    rest = [slice(None)] * (len(shape) - used)
    at = next((i for i, e in enumerate(entries) if e is Ellipsis), len(entries))
    entries[at : at + 1] = rest
    slices: list[SliceAttrs] = []
    sizes: list[int] = []
    dim = 0
    for entry in entries:
        if entry is None:
            sizes.append(1)
            continue
        if dim == 0:
            if not isinstance(entry, slice) or _bounds(entry, shape[0]) != (0, shape[0], 1):
                raise ShapeError(
                    f"cannot index a value of shape {shape} by {index!r:.80}: samples of a batch "
                    "stay apart; start with ':', as in x[:, 0]"
                )
            sizes.append(shape[0])
        else:
            start, length, step, stays = _entry(entry, dim, shape)
            if (start, length, step) != (0, shape[dim], 1):
                slices.append(SliceAttrs(dim, start, length, step))
            sizes += [length] * stays
        dim += 1
    return slices, tuple(sizes)


def _entry(entry: object, dim: int, shape: Shape) -> tuple[int, int, int, bool]:
    """Return start, length and step of one index, and whether its dimension stays."""
    size, place = shape[dim], as_integer(entry)
    if place is not None and -size <= place < size:
        return place % size, 1, 1, False
    bounds = _bounds(entry, size) if isinstance(entry, slice) else None
    if bounds is None or bounds[1] < 1:
        raise ShapeError(
            f"cannot take {entry!r:.80} of dimension {dim} of a value of shape {shape}: use an "
            f"integer from {-size} to {size - 1} or a slice that takes something, with a step "
            "above 0"
        )
    return *bounds, True


def sizes_of_parts(what: str, given: object, size: int) -> list[int]:
    """Return the sizes that `split` cuts a dimension into: equal ones but the last, or a list."""
    each = as_integer(given)
    if each is not None and each > 0:
        return [min(each, size - start) for start in range(0, size, each)]
    parts = [as_integer(n) for n in given] if isinstance(given, tuple | list) else []
    sizes = [n for n in parts if n is not None and n > 0]
    if not sizes or len(sizes) != len(parts) or sum(sizes) != size:
        raise ShapeError(
            f"{what}: {given!r:.80} does not cut {size} places; give a size above 0, or sizes "
            f"whose sum is {size}"
        )
    return sizes
