"""When each storage must hold its bytes: half-open intervals on the global step axis.

Lifetimes come from the access declarations of the operation catalogue and from what the engine
does between steps (it writes inputs before a phase and reads results after it), never from an
operation's name. This module knows nothing of addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from armtrain.dtypes import align_up
from armtrain.errors import PlanError
from armtrain.ir.program import (
    PERSISTENT_ROLES,
    Phase,
    Program,
    Role,
    StorageId,
    Tensor,
    TensorId,
)

__all__ = ["Lifetime", "Lifetimes", "lifetimes_of"]

_WRITTEN_BEFORE_PHASE = frozenset({Role.INPUT, Role.TARGET})
_READ_AFTER_PHASE = frozenset({Role.METRIC, Role.OUTPUT})


@dataclass(frozen=True)
class Lifetime:
    """One storage: the tensors that share it, its bytes, and when it is live.

    Attributes
    ----------
    storage : StorageId
    tensors : tuple of TensorId
        Ascending ids of the tensors at this address.
    nbytes : int
        Exact bytes of the largest tensor.
    first, last : int
        Live at steps first <= t < last.
    role : Role
        Role of the largest tensor (the first one among equals), for accounting.
    """

    storage: StorageId
    tensors: tuple[TensorId, ...]
    nbytes: int
    first: int
    last: int
    role: Role

    @property
    def aligned_bytes(self) -> int:
        """Bytes the storage takes in the arena."""
        return align_up(self.nbytes)


@dataclass(frozen=True)
class Lifetimes:
    """All storages of a program in ascending storage id, and the number of steps."""

    items: tuple[Lifetime, ...]
    n_steps: int

    def dump(self, program: Program) -> str:
        """Return one readable line per storage."""
        lines = [f"lifetimes: {len(self.items)} storages over {self.n_steps} steps"]
        for item in self.items:
            names = " = ".join(program.tensors[t].name for t in item.tensors)
            lines.append(
                f"  storage {item.storage:4d} [{item.first:4d},{item.last:4d}) "
                f"{item.nbytes:12d} B {item.role.name.lower():10s} {names}"
            )
        return "\n".join(lines) + "\n"


def _phase_ranges(program: Program) -> dict[Phase, tuple[int, int]]:
    """Return the half-open step range of every phase that has steps."""
    ranges: dict[Phase, tuple[int, int]] = {}
    for index, step in enumerate(program.steps):
        first, last = ranges.get(step.phase, (index, index))
        if last != index:
            raise PlanError(f"phase {step.phase.name} is not one run of steps (step {index})")
        ranges[step.phase] = (first, index + 1)
    return ranges


def _accesses(program: Program) -> list[tuple[int, int] | None]:
    """Return per tensor the half-open range from its first to its last use by a step."""
    ranges: list[tuple[int, int] | None] = [None] * len(program.tensors)
    for index, step in enumerate(program.steps):
        for operand in step.operands:
            if operand is not None:
                old = ranges[operand]
                ranges[operand] = (index if old is None else old[0], index + 1)
    return ranges


def _tensor_range(
    tensor: Tensor,
    used: tuple[int, int] | None,
    program: Program,
    phases: dict[Phase, tuple[int, int]],
) -> tuple[int, int]:
    """Return when `tensor` must be in memory."""
    if tensor.role in PERSISTENT_ROLES:
        return 0, len(program.steps)
    if used is None:
        raise PlanError(
            f"tensor '{tensor.name}' ({tensor.role.name.lower()}) is used by no step: "
            "remove it from the program"
        )
    first, last = used
    if tensor.role in _WRITTEN_BEFORE_PHASE:
        first = phases[program.steps[first].phase][0]
    if tensor.role in _READ_AFTER_PHASE:
        last = phases[program.steps[last - 1].phase][1]
    return first, last


def lifetimes_of(program: Program) -> Lifetimes:
    """Return the lifetime of every storage of `program`.

    Parameters
    ----------
    program : Program

    Returns
    -------
    Lifetimes
        One item per storage; the interval of a storage is the union over its tensors.

    Raises
    ------
    PlanError
        When a tensor that is not persistent is used by no step, or phases are interleaved.
    """
    phases = _phase_ranges(program)
    accesses = _accesses(program)
    members: dict[StorageId, list[Tensor]] = {}
    for tensor in program.tensors:
        members.setdefault(tensor.storage, []).append(tensor)
    items = []
    for storage in sorted(members):
        tensors = members[storage]
        ranges = [_tensor_range(t, accesses[t.id], program, phases) for t in tensors]
        largest = max(tensors, key=lambda t: (t.nbytes, -t.id))
        items.append(
            Lifetime(
                storage,
                tuple(t.id for t in tensors),
                largest.nbytes,
                min(r[0] for r in ranges),
                max(r[1] for r in ranges),
                largest.role,
            )
        )
    return Lifetimes(tuple(items), len(program.steps))
