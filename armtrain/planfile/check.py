"""The independent checker: proves from a plan's bytes alone that it is safe to run.

It shares the record tables, the operation catalogue and the workspace formulas with the
planner, and no code. What it proves: the file is whole; every address is aligned and inside the
arena; buffers that are live together are disjoint; persistent buffers are never shared; every
operand is live when used, large enough for its operation, and holds the value that is meant;
in-place results are among those that the catalogue allows; arena and lower bound are what the
records say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from armtrain.dtypes import ALIGNMENT, STACK_BYTES, DType
from armtrain.errors import PlanError
from armtrain.ir.ops import OPS, OpCode
from armtrain.ir.program import Phase, Role
from armtrain.planfile.check_flow import flow_findings
from armtrain.planfile.check_io import io_findings
from armtrain.planfile.check_operations import operation_findings
from armtrain.planfile.check_parse import RawPlan, parse
from armtrain.planfile.check_records import (
    header_number_findings,
    name_hash,
    step_number_findings,
    tensor_number_findings,
)
from armtrain.planfile.format import MAX_DIMS, NONE_ID

__all__ = ["check_bytes", "findings"]

_SHOWN = 5
_ALONE = (Role.WORKSPACE, Role.METRIC)
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
    found += io_findings(raw)
    found += flow_findings(raw)
    for index in range(len(raw.steps)):
        found += operation_findings(raw, index)
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
    stacks = [t["bytes"] for t in raw.tensors if t["role"] == Role.STACK]
    need = (head["threads"] - 1) * STACK_BYTES
    if sum(stacks) != need or len(stacks) > 1:
        yield (
            f"thread stacks have {sum(stacks)} B in {len(stacks)} tensors, {head['threads']} "
            f"threads need {need} B in one"
        )


def _tensor_findings(raw: RawPlan) -> Iterator[str]:
    """Check every tensor record by itself."""
    seen: set[int] = set()
    for index, t in enumerate(raw.tensors):
        name = raw.name(index)
        if (code := name_hash(name)) in seen:
            yield f"two tensors are called '{name}' (or have names of the same hash)"
        seen.add(code)
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
        if shape != (len(spec.operands), len(spec.slots(s["n_attrs"])), operands, attrs, phase):
            yield f"step {index} ({spec.code.name}) has wrong operand or attribute places or phase"
            return
        operands += len(spec.operands)
        attrs += s["n_attrs"]
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
        alone = [i for i in ids if raw.tensors[i]["role"] in _ALONE]
        if alone and len(ids) > 1:
            role = Role(raw.tensors[alone[0]]["role"]).name.lower()
            found.append(f"the {role} '{raw.name(alone[0])}' is shared with others")
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
