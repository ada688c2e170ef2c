"""Does every step find what it reads? Follows the values of a plan through its steps."""

from __future__ import annotations

from collections.abc import Iterator

from armtrain.ir.ops import OPS, Access, OpCode, OpSpec
from armtrain.ir.program import Phase, Role
from armtrain.planfile.check_parse import RawPlan
from armtrain.planfile.format import NONE_ID

__all__ = ["flow_findings"]

_KEPT = (Role.WEIGHT, Role.FROZEN, Role.BUFFER, Role.STATE)
_FED = (Role.INPUT, Role.TARGET)
_TAKEN = (Role.METRIC, Role.OUTPUT)


def flow_findings(raw: RawPlan) -> list[str]:
    """Return what is wrong with the order of reads and writes, one sentence each."""
    found: list[str] = []
    start = 0
    head = raw.header
    counts = (head["n_train_steps"], head["n_evaluate_steps"], head["n_predict_steps"])
    for phase, count in zip(Phase, counts, strict=True):
        found += _PhaseFlow(raw, phase, start, start + count).findings()
        start += count
    return found


class _PhaseFlow:
    """Values of one phase: per storage the tensor whose value it holds."""

    def __init__(self, raw: RawPlan, phase: Phase, first: int, last: int) -> None:
        self.raw, self.phase, self.first, self.last = raw, phase, first, last
        self.holds: dict[int, int] = {}
        self.written: set[int] = set()
        self.written_somewhere = self._results()
        self.slots: dict[int, set[int]] = {}  # gradient-norm accumulator -> filled slots
        for index, t in enumerate(raw.tensors):
            if t["role"] in _FED and t["first"] <= first < t["last"]:
                self.holds[t["storage"]] = index
                self.written.add(index)

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
        fed = {self.raw.tensors[index]["role"] for index in self.written}
        needed = (Role.INPUT,) if self.phase is Phase.PREDICT else _FED
        for role in needed if self.first < self.last else ():
            if role not in fed:
                yield f"no tensor is the {role.name.lower()} at step {self.first}"
        for index in range(self.first, self.last):
            step = self.raw.steps[index]
            spec = OPS[OpCode(step["op"])]
            ids = self.raw.operands[step["operands"] : step["operands"] + len(spec.operands)]
            where = f"step {index} ({spec.code.name})"
            yield from self._uses(index, spec, ids, where)
            yield from self._aliases(spec, ids, where)
            yield from self._reads(spec, ids, where, step["attrs"])
            for slot, tensor in zip(spec.operands, ids, strict=True):
                if tensor != NONE_ID and slot.access & Access.WRITE:
                    self.holds[self.raw.tensors[tensor]["storage"]] = tensor
                    self.written.add(tensor)
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
                continue
            if spec.code is OpCode.GRAD_SUMSQ and slot.name == "acc":
                index = int.from_bytes(self.raw.attrs[8 * attrs : 8 * attrs + 8], "little")
                self.slots.setdefault(tensor, set()).add(index)
                continue
            if spec.code is OpCode.CLIP_SCALE and slot.name == "acc":
                yield from self._unfilled(tensor, where)
            yield from self._value(tensor, where)

    def _unfilled(self, tensor: int, where: str) -> Iterator[str]:
        """Check that every slot of a gradient-norm accumulator has been filled."""
        missing = set(range(self.raw.tensors[tensor]["dims"][0])) - self.slots.get(tensor, set())
        if missing:
            name = self.raw.name(tensor)
            yield f"{where}: no gradient filled slots {sorted(missing)} of '{name}'"

    def _value(self, tensor: int, where: str) -> Iterator[str]:
        """Check that the storage of `tensor` holds its value, or a value it is a view of."""
        t, name = self.raw.tensors[tensor], self.raw.name(tensor)
        holder = self.holds.get(t["storage"])
        early = tensor in self.written_somewhere and tensor not in self.written
        if holder is None or early:
            yield f"{where} reads '{name}', which nothing has written before in this phase"
        elif tensor in self.written and holder != tensor:
            other = self.raw.name(holder)
            yield f"{where} reads '{name}', which '{other}' has overwritten in place"
        elif self.raw.tensors[holder]["bytes"] < t["bytes"]:
            size = self.raw.tensors[holder]["bytes"]
            yield (
                f"{where} reads {t['bytes']} B of '{name}', but '{self.raw.name(holder)}' wrote "
                f"{size} B"
            )
