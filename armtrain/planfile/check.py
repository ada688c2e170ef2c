"""The independent checker: proves from a plan's bytes alone that it is safe to run.

It shares the record tables, the operation catalogue and the workspace formulas with the
planner, and no code. What it proves: the file is whole; every address is aligned and inside the
arena; buffers that are live together are disjoint; persistent buffers are never shared; every
operand is live when used, large enough for its operation, and holds the value that is meant;
in-place results are among those that the catalogue allows; arena and lower bound are what the
records say.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from armtrain.dtypes import ALIGNMENT, STACK_BYTES, DType
from armtrain.errors import PlanError
from armtrain.ir.ops import OPS, Access, OpCode, OpSpec
from armtrain.ir.program import Phase, Role
from armtrain.ir.workspace import workspace_bytes
from armtrain.planfile.check_flow import flow_findings
from armtrain.planfile.check_parse import RawPlan, parse
from armtrain.planfile.check_records import (
    attr_findings,
    form_findings,
    header_number_findings,
    momentum_findings,
    step_number_findings,
    tensor_number_findings,
)
from armtrain.planfile.check_shapes import Operands, needed_dtype, needed_elements
from armtrain.planfile.format import MAX_DIMS, NONE_ID

__all__ = ["check_bytes", "findings"]

_SHOWN = 5
_ALWAYS_LIVE = (Role.WEIGHT, Role.FROZEN, Role.BUFFER, Role.STATE, Role.STACK)


@dataclass(frozen=True)
class _Area:
    """One storage: bytes [offset, end), steps [first, last)."""

    name: str
    offset: int
    end: int
    first: int
    last: int

    def __str__(self) -> str:
        """Return the storage for messages."""
        return (
            f"'{self.name}' ({self.end - self.offset} B at {self.offset}, steps "
            f"[{self.first},{self.last}))"
        )


def check_bytes(content: bytes) -> None:
    """Refuse a plan file that is damaged or not safe to run.

    Parameters
    ----------
    content : bytes
        The whole file.

    Raises
    ------
    PlanError
        With the first findings, each naming its cause.
    """
    found = findings(content)
    if found:
        more = len(found) - _SHOWN
        tail = f" (and {more} more)" if more > 0 else ""
        raise PlanError("the plan is not safe to run: " + "; ".join(found[:_SHOWN]) + tail)


def findings(content: bytes) -> list[str]:
    """Return everything that is wrong with a plan file, one sentence each.

    Raises
    ------
    PlanError
        When the file is so damaged that it cannot be examined.
    """
    raw = parse(content)
    found = [*_header_findings(raw), *_tensor_findings(raw), *_step_findings(raw)]
    if found:  # what follows relies on records that are in range
        return found
    areas, found = _areas(raw)
    found += _overlap_findings(areas)
    found += _size_findings(raw, areas)
    found += flow_findings(raw)
    for index in range(len(raw.steps)):
        found += _operation_findings(raw, index)
    return found


def _header_findings(raw: RawPlan) -> Iterator[str]:
    """Check the numbers of the header that no other check covers."""
    head = raw.header
    if head["alignment"] != ALIGNMENT:
        yield f"alignment {head['alignment']}, {ALIGNMENT} expected"
    yield from header_number_findings(raw)
    steps = head["n_train_steps"] + head["n_evaluate_steps"] + head["n_predict_steps"]
    if steps != len(raw.steps):
        yield f"{len(raw.steps)} steps, but {steps} in the phases"
    stacks = sum(t["bytes"] for t in raw.tensors if t["role"] == Role.STACK)
    need = (head["threads"] - 1) * STACK_BYTES
    if stacks != need:
        yield f"thread stacks have {stacks} B, {head['threads']} threads need {need} B"


def _tensor_findings(raw: RawPlan) -> Iterator[str]:
    """Check every tensor record by itself."""
    seen: set[str] = set()
    for index, t in enumerate(raw.tensors):
        name = raw.name(index)
        if name in seen:
            yield f"two tensors are called '{name}'"
        seen.add(name)
        if t["role"] not in list(Role) or t["dtype"] not in list(DType):
            yield f"tensor '{name}' has the unknown role {t['role']} or type {t['dtype']}"
            continue
        if not 1 <= t["ndim"] <= MAX_DIMS or 0 in t["dims"]:
            yield f"tensor '{name}' has {t['ndim']} dimensions {t['dims']}"
            continue
        yield from tensor_number_findings(t, name, raw.header["batch_size"])
        need = prod(t["dims"]) * DType(t["dtype"]).itemsize
        if t["bytes"] != need:
            dims = "x".join(str(d) for d in t["dims"][: t["ndim"]])
            yield f"buffer '{name}' has {t['bytes']} B, its {dims} elements need {need} B"
        if t["offset"] % ALIGNMENT:
            yield f"buffer '{name}' starts at {t['offset']}, not a multiple of {ALIGNMENT}"
        if not t["first"] < t["last"] <= len(raw.steps):
            steps = f"[{t['first']},{t['last']}) of {len(raw.steps)}"
            yield f"buffer '{name}' is live for steps {steps}"
        if prod(t["shape"]) != prod(t["dims"]) or prod(t["view"]) != prod(t["dims"]):
            yield f"tensor '{name}': shape {t['shape']} or view {t['view']} has other elements"


def _step_findings(raw: RawPlan) -> Iterator[str]:
    """Check every step record by itself."""
    head = raw.header
    counts = (head["n_train_steps"], head["n_evaluate_steps"], head["n_predict_steps"])
    if sum(counts) != len(raw.steps):  # found in the header; a list of so many may be endless
        return
    phases = [phase for phase, count in zip(Phase, counts, strict=True) for _ in range(count)]
    operands = attrs = 0
    for index, (s, phase) in enumerate(zip(raw.steps, phases, strict=False)):
        if s["op"] not in list(OpCode):
            yield f"step {index} has the unknown operation {s['op']}"
            return
        spec = OPS[OpCode(s["op"])]
        shape = (s["n_operands"], s["n_attrs"], s["operands"], s["attrs"], s["phase"])
        if shape != (len(spec.operands), len(spec.attrs), operands, attrs, phase):
            yield f"step {index} ({spec.code.name}) has wrong operand or attribute places or phase"
            return
        operands += len(spec.operands)
        attrs += len(spec.attrs)
        yield from step_number_findings(s, f"step {index} ({spec.code.name})")
        ids = raw.operands[s["operands"] : operands]
        for slot, tensor in zip(spec.operands, ids, strict=False):
            if tensor >= len(raw.tensors) and not (tensor == NONE_ID and slot.optional):
                yield f"step {index} ({spec.code.name}): operand {slot.name} is no tensor"
    if operands != len(raw.operands) or 8 * attrs != len(raw.attrs):
        yield "operands or attributes and the steps that use them differ in number"


def _areas(raw: RawPlan) -> tuple[list[_Area], list[str]]:
    """Return all storages, and what is wrong with how tensors share them."""
    found: list[str] = []
    members: dict[int, list[int]] = {}
    for index, t in enumerate(raw.tensors):
        members.setdefault(t["storage"], []).append(index)
    areas = []
    for ids in members.values():
        tensors = [raw.tensors[i] for i in ids]
        if len({(t["offset"], t["first"], t["last"]) for t in tensors}) > 1:
            names = ", ".join(f"'{raw.name(i)}'" for i in ids)
            found.append(f"{names} share a storage but not its address and lifetime")
        kept = [i for i in ids if raw.tensors[i]["role"] in _ALWAYS_LIVE]
        if kept and len(ids) > 1:
            found.append(f"the persistent buffer '{raw.name(kept[0])}' is shared with others")
        first, last = min(t["first"] for t in tensors), max(t["last"] for t in tensors)
        if kept and (first, last) != (0, len(raw.steps)):
            found.append(f"the persistent buffer '{raw.name(kept[0])}' is not live at every step")
        size = max(t["bytes"] for t in tensors)
        start = tensors[0]["offset"]
        areas.append(_Area(raw.name(ids[0]), start, start + size, first, last))
    return areas, found


def _overlap_findings(areas: list[_Area]) -> Iterator[str]:
    """Compare every storage with those above it that start before it ends."""
    ordered = sorted(areas, key=lambda a: (a.offset, a.end))
    for index, low in enumerate(ordered):
        for high in ordered[index + 1 :]:
            if high.offset >= low.end:
                break
            if low.first < high.last and high.first < low.last:
                yield f"{low} and {high} overlap while both are live"


def _size_findings(raw: RawPlan, areas: list[_Area]) -> Iterator[str]:
    """Recompute arena and lower bound."""
    head = raw.header
    live = [0] * len(raw.steps)
    top = 0
    for area in areas:
        size = (area.end - area.offset + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        top = max(top, area.offset + size)
        for step in range(area.first, area.last):
            live[step] += size
        if area.end > head["arena_bytes"]:
            yield f"{area} ends above the arena of {head['arena_bytes']} B"
    if top != head["arena_bytes"]:
        yield f"the arena is given as {head['arena_bytes']} B, its buffers need {top} B"
    bound = max(live, default=0)
    if bound != head["lower_bound_bytes"]:
        yield f"the lower bound is given as {head['lower_bound_bytes']} B, it is {bound} B"
    if not bound <= head["proved_minimum_bytes"] <= head["arena_bytes"]:
        yield (
            f"the proved minimum {head['proved_minimum_bytes']} B is not between the lower bound "
            f"{bound} B and the arena {head['arena_bytes']} B"
        )
    if 0 < head["budget_bytes"] < head["arena_bytes"]:
        yield f"the arena {head['arena_bytes']} B is above its budget {head['budget_bytes']} B"


def _attributes(raw: RawPlan, spec: OpSpec, start: int) -> dict[str, int | float]:
    """Return the attributes of a step by name."""
    codes = {"i": "<q", "f": "<d"}
    return {
        slot.name: struct.unpack_from(codes[slot.kind], raw.attrs, 8 * (start + place))[0]
        for place, slot in enumerate(spec.attrs)
    }


def _operation_findings(raw: RawPlan, index: int) -> Iterator[str]:
    """Check sizes and types of one step's operands, and its scratch."""
    step = raw.steps[index]
    spec = OPS[OpCode(step["op"])]
    ids = raw.operands[step["operands"] : step["operands"] + len(spec.operands)]
    present = {
        slot.name: tensor
        for slot, tensor in zip(spec.operands, ids, strict=True)
        if tensor != NONE_ID
    }
    dims = {n: raw.tensors[t]["dims"][: raw.tensors[t]["ndim"]] for n, t in present.items()}
    attrs = _attributes(raw, spec, step["attrs"])
    where = f"step {index} ({spec.code.name}, layer '{raw.text(step['layer'])}')"
    yield from form_findings(raw, spec, present, where)
    yield from momentum_findings(spec, dims, attrs, where)
    wrong = list(attr_findings(spec, attrs, where))
    if wrong:  # sizes that follow from the attributes mean nothing
        yield from wrong
        return
    try:
        needs = needed_elements(spec.code, Operands(dims, attrs))
    except (KeyError, ValueError):
        yield f"{where}: operands {dims} have the wrong number of dimensions"
        return
    for name, need in needs.items():
        if name in present and prod(dims[name]) != need:
            item = needed_dtype(spec.code, name).itemsize
            yield (
                f"{where}: {name} '{raw.name(present[name])}' has {prod(dims[name]) * item} B, "
                f"needs {max(0, need) * item} B"
            )
    every = tuple(dims.get(slot.name) for slot in spec.operands)
    scratch = [present[s.name] for s in spec.operands
               if s.access is Access.SCRATCH and s.name in present]  # fmt: skip
    have = raw.tensors[scratch[0]]["bytes"] if scratch else 0
    without_scratch = tuple(
        None if s.access is Access.SCRATCH else d for s, d in zip(spec.operands, every, strict=True)
    )
    threads = raw.header["threads"]
    try:
        need = workspace_bytes(spec.code, without_scratch, tuple(attrs.values()), threads)
    except (AssertionError, IndexError, ValueError):
        yield f"{where}: operands {dims} have the wrong number of dimensions for its workspace"
        return
    if have < need:
        name = f"'{raw.name(scratch[0])}'" if scratch else "none"
        yield f"{where}: its workspace ({name}) has {have} B, needs {need} B"
