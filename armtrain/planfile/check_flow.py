"""Does every step find what it reads? Follows the values of a plan through its steps."""

from __future__ import annotations

from collections.abc import Iterator

from armtrain.ir.ops import OPS, Access, OpCode, OpSpec
from armtrain.ir.program import Phase, Role
from armtrain.planfile.check_io import fed_tensors, phase_steps
from armtrain.planfile.check_parse import RawPlan
from armtrain.planfile.format import NONE_ID

__all__ = ["flow_findings"]

_KEPT = (Role.WEIGHT, Role.FROZEN, Role.BUFFER, Role.STATE)
_FED = (Role.INPUT, Role.TARGET)
_TAKEN = (Role.METRIC, Role.OUTPUT)
_UPDATED_ONCE = (Role.WEIGHT, Role.STATE)


def flow_findings(raw: RawPlan) -> list[str]:
    """Return what is wrong with the order of reads and writes, one sentence each."""
    return [text for phase in Phase for text in _PhaseFlow(raw, phase).findings()]


class _PhaseFlow:
    """Values of one phase: per storage the tensor whose value it holds.

    `writes` counts the writes of a storage, `seen` is that count when a view was first read;
    `accumulator` is the tensor of gradient norms whose `slots` have been filled; `indices` tells
    of a gradient of some rows which these are.
    """

    def __init__(self, raw: RawPlan, phase: Phase) -> None:
        steps = phase_steps(raw, phase)
        self.raw, self.phase, self.first, self.last = raw, phase, steps.start, steps.stop
        self.holds: dict[int, int] = {}
        self.writes: dict[int, int] = {}
        self.written: set[int] = set()
        self.seen: dict[int, int] = {}
        self.written_somewhere = self._results()
        self.accumulator: int | None = None
        self.slots: set[int] = set()
        self.indices: dict[int, int] = {}
        for index in fed_tensors(raw, phase):
            self._write(index)

    def _write(self, tensor: int) -> None:
        """Note that a tensor was written."""
        storage = self.raw.tensors[tensor]["storage"]
        self.holds[storage] = tensor
        self.writes[storage] = self.writes.get(storage, 0) + 1
        self.written.add(tensor)

    def _results(self) -> set[int]:
        """Return the tensors that some step of the phase writes; others can only be views."""
        results = set()
        for step in self.raw.steps[self.first : self.last]:
            slots = OPS[OpCode(step["op"])].operands
            ids = self.raw.operands[step["operands"] : step["operands"] + len(slots)]
            results |= {t for s, t in zip(slots, ids, strict=True) if s.access & Access.WRITE}
        return results

    def findings(self) -> Iterator[str]:
        """Follow all steps, then look at what the engine reads after them."""
        for index in range(self.first, self.last):
            step = self.raw.steps[index]
            spec = OPS[OpCode(step["op"])]
            ids = self.raw.operands[step["operands"] : step["operands"] + len(spec.operands)]
            where = f"step {index} ({spec.code.name})"
            yield from self._uses(index, spec, ids, where)
            yield from self._aliases(spec, ids, where)
            yield from self._reads(spec, ids, where, step["attrs"])
            yield from self._rows(spec, ids, where)
            for slot, tensor in zip(spec.operands, ids, strict=True):
                if tensor != NONE_ID and slot.access & Access.WRITE:
                    self._write(tensor)
        for index, t in enumerate(self.raw.tensors):
            if t["role"] in _TAKEN and index in self.written:
                if t["last"] < self.last:
                    yield f"result '{self.raw.name(index)}' is not live after its phase"
                elif self.holds.get(t["storage"]) != index:
                    yield f"result '{self.raw.name(index)}' is overwritten before its phase ends"

    def _uses(self, index: int, spec: OpSpec, ids: tuple[int, ...], where: str) -> Iterator[str]:
        """Check that operands are live and of a role that may be used this way."""
        for slot, tensor in zip(spec.operands, ids, strict=True):
            if tensor == NONE_ID:
                continue
            t, name = self.raw.tensors[tensor], self.raw.name(tensor)
            if not t["first"] <= index < t["last"]:
                yield f"{where} uses '{name}', live only for steps [{t['first']},{t['last']})"
            if t["role"] in _FED and t["first"] > self.first:
                yield f"'{name}' arrives before step {self.first} but is live from {t['first']}"
            scratch = slot.access is Access.SCRATCH
            if scratch != (t["role"] == Role.WORKSPACE) or t["role"] == Role.STACK:
                yield f"{where}: '{name}' has role {Role(t['role']).name}, wrong for {slot.name}"
            if not slot.access & Access.WRITE:
                continue
            updates = slot.access & Access.READ and self.phase is Phase.TRAIN
            if t["role"] in _KEPT and (not updates or t["role"] == Role.FROZEN):
                yield f"{where} would overwrite the persistent buffer '{name}'"
            if t["role"] in _FED:
                yield f"{where} would overwrite the batch in '{name}'"

    def _aliases(self, spec: OpSpec, ids: tuple[int, ...], where: str) -> Iterator[str]:
        """Check that operands on one storage are a pair that the catalogue allows."""
        used = [
            (slot, tensor, self.raw.tensors[tensor]["storage"])
            for slot, tensor in zip(spec.operands, ids, strict=True)
            if tensor != NONE_ID
        ]
        for place, (a, tensor_a, storage_a) in enumerate(used):
            for b, tensor_b, storage_b in used[place + 1 :]:
                both_read = a.access is Access.READ and b.access is Access.READ
                pairs = {(a.name, b.name), (b.name, a.name)}
                if storage_a == storage_b and not both_read and not pairs & set(spec.inplace):
                    yield (
                        f"{where}: '{self.raw.name(tensor_a)}' and '{self.raw.name(tensor_b)}' "
                        "share a storage, which this operation does not allow"
                    )

    def _reads(self, spec: OpSpec, ids: tuple[int, ...], where: str, attrs: int) -> Iterator[str]:
        """Check that what is read has been written and not replaced."""
        for slot, tensor in zip(spec.operands, ids, strict=True):
            if tensor == NONE_ID or not slot.access & Access.READ:
                continue
            t = self.raw.tensors[tensor]
            if t["role"] in _KEPT:
                if t["role"] in _UPDATED_ONCE and tensor in self.written:
                    name = self.raw.name(tensor)
                    yield f"{where} reads '{name}', which an earlier step of the phase has updated"
                continue
            if spec.code is OpCode.GRAD_SUMSQ and slot.name == "acc":
                index = int.from_bytes(self.raw.attrs[8 * attrs : 8 * attrs + 8], "little")
                yield from self._fill(tensor, index, where)
                continue
            if spec.code is OpCode.CLIP_SCALE and slot.name == "acc":
                yield from self._unfilled(tensor, where)
            yield from self._value(tensor, where)

    def _rows(self, spec: OpSpec, ids: tuple[int, ...], where: str) -> Iterator[str]:
        """Check that an update of some rows has their gradient, and the same indices."""
        at = spec.operand_index
        if "rows" not in at:
            return
        rows, indices = ids[at["rows"]], ids[at["x"]]
        if "dy" in at:
            self.indices[rows] = indices
        elif NONE_ID not in (rows, indices) and self.indices.get(rows) != indices:
            name, x = self.raw.name(rows), self.raw.name(indices)
            yield f"{where}: no earlier step has made '{name}' for the indices '{x}'"

    def _fill(self, tensor: int, index: int, where: str) -> Iterator[str]:
        """Check that a gradient fills a slot of its own in the phase's only accumulator."""
        name = self.raw.name(tensor)
        if self.accumulator not in (None, tensor):
            first = self.raw.name(self.accumulator or 0)
            yield f"{where} fills '{name}', but '{first}' holds the phase's gradient norms"
        if self.raw.tensors[tensor]["dims"][0] > len(self.raw.tensors):
            yield f"{where}: '{name}' has more slots than the plan has tensors"
        if index in self.slots:
            yield f"{where} fills slot {index} of '{name}' again"
        self.accumulator = tensor
        self.slots.add(index)

    def _unfilled(self, tensor: int, where: str) -> Iterator[str]:
        """Check that every slot of the gradient norms has been filled, and nothing else written."""
        t, name = self.raw.tensors[tensor], self.raw.name(tensor)
        filled = len(self.slots) if tensor == self.accumulator else 0
        if filled != t["dims"][0]:
            yield f"{where}: gradients filled {filled} of {t['dims'][0]} slots of '{name}'"
        elif self.writes[t["storage"]] != filled:
            yield f"{where} reads '{name}', which holds more than the norms of gradients"

    def _value(self, tensor: int, where: str) -> Iterator[str]:
        """Check that the storage of `tensor` holds its value, or a value it is a view of."""
        t, name = self.raw.tensors[tensor], self.raw.name(tensor)
        holder = self.holds.get(t["storage"])
        early = tensor in self.written_somewhere and tensor not in self.written
        if holder is None or early:
            yield f"{where} reads '{name}', which nothing has written before in this phase"
            return
        h, other = self.raw.tensors[holder], self.raw.name(holder)
        now = self.writes[t["storage"]]
        same = tensor in self.written or self.seen.setdefault(tensor, now) == now
        if not same or (tensor in self.written and holder != tensor):
            yield f"{where} reads '{name}', which '{other}' has overwritten in place"
        elif h["bytes"] < t["bytes"]:
            yield f"{where} reads {t['bytes']} B of '{name}', but '{other}' wrote {h['bytes']} B"
        elif (h["dtype"], h["batched"]) != (t["dtype"], t["batched"]):
            yield f"{where} reads '{name}' as a view of '{other}', which has another type or batch"
