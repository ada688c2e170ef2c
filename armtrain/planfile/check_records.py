"""The checker's rules for single records: every number must be one that the engine takes.

They are its side of `armtrain/limits.py` and of the ranges in the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

from armtrain.dtypes import DType
from armtrain.ir.ops import OpSpec
from armtrain.ir.program import InitKind, Role
from armtrain.limits import (
    MAX_ARENA_BYTES,
    MAX_DIM,
    MAX_RECORDS,
    MAX_ROWS,
    MAX_SIDE,
    MAX_THREADS,
    MIN_FLOAT,
)
from armtrain.planfile.check_parse import RawPlan
from armtrain.planfile.check_shapes import (
    MAY_HAVE_ROWS,
    has_rows,
    may_be_batched,
    needed_dtype,
    needed_rank,
)
from armtrain.planfile.format import MAX_DIMS, STEP_KINDS

__all__ = [
    "attr_findings",
    "form_findings",
    "header_number_findings",
    "name_hash",
    "step_number_findings",
    "tensor_number_findings",
]

_SAVED = (Role.WEIGHT, Role.FROZEN, Role.BUFFER)
_ONLY_BATCHED = ("LINEAR_", "CONV2D_", "CONV_TRANSPOSE2D_", "BLOCKS_")


def header_number_findings(raw: RawPlan) -> Iterator[str]:
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
    if raw.strings[:1] != b"\0" or raw.strings[-1:] != b"\0":
        yield "the strings do not start and end with a NUL byte"
    if head["swap_count"]:
        yield f"{head['swap_count']} swap records, version 1.0 has none"
    if head["reserved0"]:
        yield f"reserved0 of the header is {head['reserved0']}, not 0"


def name_hash(name: str) -> int:
    """Return the FNV-1a hash by which the engine finds names and starts random numbers."""
    value = 0xCBF29CE484222325
    for byte in name.encode("utf-8"):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def tensor_number_findings(tensor: dict[str, Any], name: str, batch: int) -> Iterator[str]:
    """Check what one tensor's record says of its form and its first content."""
    largest = max(*tensor["dims"], *tensor["shape"], *tensor["view"])
    if largest > MAX_DIM:
        yield f"tensor '{name}' has a dimension of {largest}, at most {MAX_DIM} are possible"
    for key, used in (("dims", tensor["ndim"]), ("shape", tensor["shape_ndim"])):
        if not 1 <= used <= MAX_DIMS or set(tensor[key][used:]) - {1}:
            yield f"tensor '{name}' has {key} {tensor[key]} of which {used} are used"
    if sorted(tensor["perm"]) != list(range(MAX_DIMS)):
        yield f"tensor '{name}' permutes its axes by {tensor['perm']}"
    if any(tensor["reserved"]):
        yield f"tensor '{name}' has reserved bytes {tensor['reserved']}, not 0"
    if tensor["init_kind"] not in list(InitKind):
        yield f"tensor '{name}' has the unknown initialiser {tensor['init_kind']}"
    if not (isfinite(tensor["init_a"]) and isfinite(tensor["init_b"])):
        yield f"tensor '{name}' starts with {tensor['init_a']} and {tensor['init_b']}, not finite"
    if tensor["role"] in (*_SAVED, Role.STATE) and not _starts(tensor):
        yield f"tensor '{name}' has an initialiser that cannot fill its type"
    if tensor["role"] in _SAVED and tensor["dtype"] != DType.F32:
        yield f"tensor '{name}' is saved and must be float32"
    yield from _batch_findings(tensor, name, batch)


def _starts(tensor: dict[str, Any]) -> bool:
    """Tell whether the initialiser can fill the tensor: integers can start with 0 only."""
    kind, dtype = tensor["init_kind"], tensor["dtype"]
    constant = kind == InitKind.CONSTANT and (dtype == DType.F64 or tensor["init_a"] == 0.0)
    return bool(kind == InitKind.NONE or dtype == DType.F32 or constant)


def _batch_findings(tensor: dict[str, Any], name: str, batch: int) -> Iterator[str]:
    """Check that a batched tensor starts with the batch everywhere, and does not persist."""
    if tensor["batched"] not in (0, 1):
        yield f"tensor '{name}' is batched by {tensor['batched']}, not 0 or 1"
    elif tensor["batched"]:
        firsts = (tensor["dims"][0], tensor["shape"][0], tensor["view"][0])
        if set(firsts) != {batch} or tensor["perm"][0]:
            yield f"tensor '{name}' is batched, but starts with {firsts} instead of {batch}"
        if tensor["role"] in (*_SAVED, Role.STATE):
            yield f"tensor '{name}' is batched and cannot outlive a step"


def step_number_findings(step: dict[str, Any], where: str) -> Iterator[str]:
    """Check the fields of a step that are no index."""
    if step["reserved"] or step["reserved1"]:
        yield f"{where} has reserved bytes {step['reserved']} and {step['reserved1']}, not 0"
    if step["kind"] >= len(STEP_KINDS):
        yield f"{where} has the unknown kind {step['kind']}"


def _image_findings(dims: tuple[int, ...], name: str, where: str) -> Iterator[str]:
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
    for slot in spec.slots(len(attrs)):
        value = attrs[slot.name]
        if not (isfinite(value) and slot.low <= value <= slot.high):
            yield f"{where}: {slot.name} is {value:g}, needs {slot.low:g} to {slot.high:g}"
        elif slot.kind == "f" and 0.0 < abs(value) < MIN_FLOAT:
            yield f"{where}: {slot.name} is {value:g}, which is 0 as a float32"


def _smaller_findings(raw: RawPlan, present: dict[str, int], where: str) -> Iterator[str]:
    """Check that what is combined with a batch has a row for each sample, or none for any."""
    for name in MAY_HAVE_ROWS.keys() & present.keys():
        small, large = raw.tensors[present[name]], raw.tensors[present[MAY_HAVE_ROWS[name]]]
        whole = small["ndim"] == large["ndim"]
        if small["batched"] and not (large["batched"] and whole):
            yield f"{where}: {name} is a batch, {MAY_HAVE_ROWS[name]} is none of its dimensions"
        if large["batched"] and not small["batched"] and whole and small["dims"][0] != 1:
            yield f"{where}: {name} has {small['dims'][0]} rows and is no batch, needs 1"


def form_findings(raw: RawPlan, spec: OpSpec, present: dict[str, int], where: str) -> Iterator[str]:
    """Check types, ranks, rows and who is batched among a step's operands."""
    samples = set()
    yield from _smaller_findings(raw, present, where)
    for name, index in present.items():
        tensor, rank = raw.tensors[index], needed_rank(spec.code, name)
        if tensor["dtype"] != (want := needed_dtype(spec.code, name)):
            yield f"{where}: {name} '{raw.name(index)}' is not of type {want.name}"
        yield from _image_findings(tensor["dims"][: tensor["ndim"]], name, where)
        if rank not in (None, tensor["ndim"]):
            yield f"{where}: {name} has {tensor['ndim']} dimensions, needs {rank}"
        if has_rows(spec.code, name) or (name in MAY_HAVE_ROWS and tensor["batched"]):
            samples.add((tensor["batched"], tensor["dims"][0]))
        elif tensor["batched"] and not may_be_batched(spec.code, name):
            yield f"{where}: {name} '{raw.name(index)}' must not be batched"
    if len(samples) > 1:
        yield f"{where}: operands have (batched, rows) {sorted(samples)}, all need the same"
    if spec.code.name.startswith(_ONLY_BATCHED) and (0 in {batched for batched, _ in samples}):
        yield f"{where}: its operands must be batched"
