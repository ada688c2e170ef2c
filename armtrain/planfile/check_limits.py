"""Is every number of a plan one that the engine takes? The checker's side of `ir/limits.py`."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from armtrain.ir.limits import (
    MAX_ARENA_BYTES,
    MAX_DIM,
    MAX_RECORDS,
    MAX_ROWS,
    MAX_SIDE,
    MAX_THREADS,
    MIN_FLOAT,
)
from armtrain.ir.ops import OpSpec
from armtrain.planfile.check_parse import RawPlan

__all__ = [
    "attr_findings",
    "header_limit_findings",
    "image_findings",
    "tensor_limit_findings",
]


def header_limit_findings(raw: RawPlan) -> Iterator[str]:
    """Compare counts and sizes of the whole plan with what is possible."""
    head = raw.header
    for what, value, most in (
        ("batch", head["batch_size"], MAX_DIM),
        ("threads", head["threads"], MAX_THREADS),
        ("bytes of arena", head["arena_bytes"], MAX_ARENA_BYTES),
        ("tensors", len(raw.tensors), MAX_RECORDS),
        ("steps", len(raw.steps), MAX_RECORDS),
    ):
        if not 1 <= value <= most:
            yield f"{what}: {value}, 1 to {most} are possible"


def tensor_limit_findings(tensor: dict[str, tuple[int, ...]], name: str) -> Iterator[str]:
    """Compare one tensor's dimensions with what is possible."""
    largest = max(*tensor["dims"], *tensor["shape"], *tensor["view"])
    if largest > MAX_DIM:
        yield f"tensor '{name}' has a dimension of {largest}, at most {MAX_DIM} are possible"


def image_findings(dims: tuple[int, ...], name: str, where: str) -> Iterator[str]:
    """Compare an operand of four dimensions, a batch of images, with what kernels count."""
    if len(dims) == 4:
        rows, side = dims[0] * dims[1] * dims[2], max(dims[1:3])
        if rows > MAX_ROWS or side > MAX_SIDE:
            yield (
                f"{where}: {name} has {rows} pixels in all images and sides up to {side}; "
                f"{MAX_ROWS} and {MAX_SIDE} are possible"
            )


def attr_findings(spec: OpSpec, attrs: dict[str, int | float], where: str) -> Iterator[str]:
    """Compare a step's attributes with their ranges in the catalogue."""
    for slot in spec.attrs:
        value = attrs[slot.name]
        if not (isfinite(value) and slot.low <= value <= slot.high):
            yield f"{where}: {slot.name} is {value:g}, needs {slot.low:g} to {slot.high:g}"
        elif slot.kind == "f" and 0.0 < abs(value) < MIN_FLOAT:
            yield f"{where}: {slot.name} is {value:g}, which is 0 as a float32"
