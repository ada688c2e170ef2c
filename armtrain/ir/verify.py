"""Program verifier: proves properties of a training program without knowing how it was made.

It shares no code with the passes. What it holds against every program:

* every step has the operands and attributes that the catalogue declares;
* every read finds the value that it names: nothing is read before it is written, nor after
  another result took its storage;
* results share storage with operands only where the catalogue allows the pair;
* every trained weight is updated exactly once, after its last use; nothing else is ever written
  that persists, except running statistics in training steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from armtrain.errors import PlanError
from armtrain.ir.ops import Access, OpCode, OperandSpec, spec_of
from armtrain.ir.program import (
    PERSISTENT_ROLES,
    Phase,
    Program,
    Role,
    Step,
    StorageId,
    Tensor,
    TensorId,
)

__all__ = ["verify_program"]

_UPDATED_ONCE = frozenset({Role.WEIGHT, Role.STATE})
_WRITTEN_BEFORE = frozenset({Role.INPUT, Role.TARGET})
_READ_AFTER = frozenset({Role.METRIC, Role.OUTPUT})


def _require(condition: bool, text: str) -> None:
    """Refuse the program."""
    if not condition:
        raise PlanError(f"malformed program: {text}")


@dataclass
class _Content:
    """What the storages hold while a phase is followed step by step.

    `writer[s]` is the tensor last written into storage s, with a version that counts writes;
    `seen[t]` is the version that a view t was first read at.
    """

    writer: dict[StorageId, TensorId] = field(default_factory=dict)
    version: dict[StorageId, int] = field(default_factory=dict)
    written: dict[TensorId, int] = field(default_factory=dict)
    seen: dict[TensorId, int] = field(default_factory=dict)

    def write(self, tensor: Tensor) -> None:
        """Note that `tensor` was written."""
        version = self.version.get(tensor.storage, 0) + 1
        self.version[tensor.storage] = version
        self.writer[tensor.storage] = tensor.id
        self.written[tensor.id] = version

    def check_read(self, tensor: Tensor, where: str, tensors: tuple[Tensor, ...]) -> None:
        """Refuse a read of a value that is not there."""
        name, now = tensor.name, self.version.get(tensor.storage)
        _require(now is not None, f"{where} reads '{name}' before anything wrote it")
        writer = tensors[self.writer[tensor.storage]]
        if tensor.id in self.written:
            bound = self.written[tensor.id]
        else:
            bound = self.seen.setdefault(tensor.id, now or 0)
            same = (tensor.nbytes, tensor.dtype, tensor.batched)
            _require(
                same == (writer.nbytes, writer.dtype, writer.batched),
                f"{where} reads '{name}' as a view of '{writer.name}' of another size",
            )
        _require(bound == now, f"{where} reads '{name}', which '{writer.name}' has overwritten")


def _check_tensor(tensor: Tensor, index: int, batch_size: int) -> None:
    """Check one tensor by itself."""
    layout, name = tensor.layout, tensor.name
    _require(tensor.id == index, f"'{name}' has id {tensor.id} at index {index}")
    _require(all(n >= 1 for n in tensor.dims), f"'{name}' has dimensions {tensor.dims}")
    counts = {prod(tensor.dims), prod(layout.shape), prod(layout.view)}
    _require(len(counts) == 1, f"the layout of '{name}' has another number of elements")
    _require(
        sorted(layout.perm) == list(range(len(layout.view))),
        f"the layout of '{name}' permutes {len(layout.view)} axes by {layout.perm}",
    )
    if tensor.batched:
        firsts = {tensor.dims[0], layout.shape[0], layout.view[0]}
        _require(firsts == {batch_size}, f"'{name}' is batched by {firsts}, not {batch_size}")
        _require(layout.perm[0] == 0, f"the layout of '{name}' moves the batch")


def _check_tensors(program: Program) -> None:
    """Check names, layouts, and that nothing shares a persistent storage."""
    members: dict[StorageId, list[Tensor]] = {}
    for index, tensor in enumerate(program.tensors):
        _check_tensor(tensor, index, program.batch_size)
        members.setdefault(tensor.storage, []).append(tensor)
    names = {tensor.name for tensor in program.tensors}
    _require(len(names) == len(program.tensors), "two tensors have one name")
    for tensors in members.values():
        roles = {tensor.role for tensor in tensors}
        if len(tensors) > 1:
            alone = (roles & PERSISTENT_ROLES) | (roles & {Role.WORKSPACE, Role.METRIC})
            _require(not alone, f"'{tensors[0].name}' shares its storage")


def _operands(step: Step, program: Program, where: str) -> list[tuple[OperandSpec, Tensor]]:
    """Return the present operands of a step after checking them against the catalogue."""
    spec = spec_of(step.op)
    _require(len(step.operands) == len(spec.operands), f"{where} has {len(step.operands)} operands")
    slots = spec.slots(len(step.attrs))
    _require(len(step.attrs) == len(slots), f"{where} has {len(step.attrs)} attributes")
    for attr, value in zip(slots, step.attrs, strict=True):
        kind = int if attr.kind == "i" else float
        _require(type(value) is kind, f"{where}: attribute '{attr.name}' is {value!r}")
    present = []
    for slot, tensor in zip(spec.operands, step.operands, strict=True):
        if tensor is None:
            _require(slot.optional, f"{where} lacks '{slot.name}'")
            continue
        _require(0 <= tensor < len(program.tensors), f"{where}: no tensor {tensor}")
        present.append((slot, program.tensors[tensor]))
    return present


def _check_roles(slot: OperandSpec, tensor: Tensor, phase: Phase, where: str) -> None:
    """Check that a step may use a tensor of this role in this way."""
    scratch = slot.access == Access.SCRATCH
    _require(
        scratch == (tensor.role == Role.WORKSPACE) and tensor.role != Role.STACK,
        f"{where} uses '{tensor.name}' ({tensor.role.name.lower()}) as '{slot.name}'",
    )
    if slot.access & Access.WRITE:
        _require(
            tensor.role not in _WRITTEN_BEFORE | {Role.FROZEN},
            f"{where} writes '{tensor.name}' ({tensor.role.name.lower()})",
        )
        if tensor.role in PERSISTENT_ROLES:
            updates = slot.access == Access.READ_WRITE and phase == Phase.TRAIN
            _require(updates, f"{where} overwrites the persistent '{tensor.name}'")


def _check_sharing(step: Step, operands: list[tuple[OperandSpec, Tensor]], where: str) -> None:
    """Check that operands share storage only by a declared in-place pair."""
    pairs = spec_of(step.op).inplace
    for a, first in operands:
        for b, second in operands:
            if a is b or first.storage != second.storage or not a.access & ~Access.READ:
                continue
            allowed = (a.name, b.name) in pairs or (b.name, a.name) in pairs
            _require(
                allowed, f"{where}: '{first.name}' and '{second.name}' must not share a storage"
            )


class _Phase:
    """Follows the steps of one phase."""

    def __init__(self, program: Program, phase: Phase) -> None:
        self.program = program
        self.phase = phase
        self.content = _Content()
        self.updates: dict[TensorId, int] = {}
        self.reads: dict[TensorId, int] = {}
        self.slots: dict[TensorId, set[int]] = {}
        self.used: set[TensorId] = set()
        for tensor in program.tensors:
            if tensor.role in PERSISTENT_ROLES | _WRITTEN_BEFORE:
                self.content.write(tensor)

    def follow(self, index: int, step: Step) -> None:
        """Check one step and note what it does."""
        where = f"step {index} ({step.op.name.lower()} of '{step.layer}')"
        operands = _operands(step, self.program, where)
        for slot, tensor in operands:
            self.used.add(tensor.id)
            _check_roles(slot, tensor, self.phase, where)
            if slot.access & Access.READ:
                self._read(step, slot, tensor, index, where)
        _check_sharing(step, operands, where)
        for slot, tensor in operands:
            if slot.access & Access.WRITE and tensor.role not in PERSISTENT_ROLES:
                self.content.write(tensor)

    def _read(self, step: Step, slot: OperandSpec, tensor: Tensor, index: int, where: str) -> None:
        """Check a read; an update counts as one, an accumulator is filled slot by slot."""
        if step.op == OpCode.GRAD_SUMSQ and slot.access == Access.READ_WRITE:
            place = int(step.attrs[spec_of(step.op).attr_index["index"]])
            filled = self.slots.setdefault(tensor.id, set())
            known = 0 <= place < tensor.dims[0] and place not in filled
            _require(known, f"{where}: slot {place} of '{tensor.name}' twice or not there")
            filled.add(place)
            return
        if tensor.id in self.slots:
            missing = tensor.dims[0] - len(self.slots[tensor.id])
            _require(missing == 0, f"{where} reads '{tensor.name}' with {missing} slots unfilled")
        self.content.check_read(tensor, where, self.program.tensors)
        self.reads[tensor.id] = index
        if slot.access & Access.WRITE and tensor.role in _UPDATED_ONCE:
            _require(tensor.id not in self.updates, f"{where} updates '{tensor.name}' again")
            self.updates[tensor.id] = index

    def finish(self) -> None:
        """Check what the engine relies on after the last step."""
        for tensor in self.program.tensors:
            if tensor.role in _READ_AFTER and tensor.id in self.used:
                name = Phase(self.phase).name
                self.content.check_read(tensor, f"the end of {name}", self.program.tensors)
        for tensor_id, index in self.updates.items():
            name = self.program.tensors[tensor_id].name
            _require(self.reads[tensor_id] == index, f"'{name}' is read after its update")


def _check_updates(program: Program, train: _Phase) -> None:
    """Check that every trained weight and every state is updated."""
    for tensor in program.tensors:
        if tensor.role in _UPDATED_ONCE:
            _require(tensor.id in train.updates, f"'{tensor.name}' is never updated")


def _check_phases(program: Program, phases: list[_Phase]) -> None:
    """Check that a tensor that does not persist belongs to exactly one phase."""
    for tensor in program.tensors:
        if tensor.role not in PERSISTENT_ROLES:
            users = [p.phase.name for p in phases if tensor.id in p.used]
            _require(len(users) == 1, f"'{tensor.name}' is used by phases {users or 'none'}")


def verify_program(program: Program) -> None:
    """Check every invariant of a training program.

    Parameters
    ----------
    program : Program

    Raises
    ------
    PlanError
        Naming the step and the tensors of the first violation.
    """
    _check_tensors(program)
    order = [step.phase for step in program.steps]
    _require(order == sorted(order), "phases are not in order TRAIN, EVALUATE, PREDICT")
    phases = [_Phase(program, phase) for phase in Phase]
    for index, step in enumerate(program.steps):
        phases[step.phase].follow(index, step)
    for phase in phases:
        phase.finish()
    _check_phases(program, phases)
    _check_updates(program, phases[Phase.TRAIN])
