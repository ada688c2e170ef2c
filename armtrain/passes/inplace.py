"""In-place results: a result takes the storage of an input that nobody reads any more.

Decided step by step in execution order. A result may take an input's storage if the catalogue
allows the pair, both have the same bytes, and no later step reads the input or a view of it. What
a storage held before that input is dead by the same rule, so chains need no further analysis.
"""

from __future__ import annotations

from collections.abc import Sequence

from armtrain.ir.ops import OpSpec, spec_of
from armtrain.ir.program import Role, Step, StorageId, Tensor, TensorId

__all__ = ["share_storages"]

_SHAREABLE = frozenset({Role.ACTIVATION, Role.DERIVATIVE, Role.GRADIENT})


def _last_reads(steps: Sequence[Step], roots: Sequence[TensorId]) -> dict[TensorId, int]:
    """Return per root tensor the last step that reads it or a view of it."""
    last: dict[TensorId, int] = {}
    for index, step in enumerate(steps):
        for place in spec_of(step.op).reads:
            tensor = step.operands[place]
            if tensor is not None:
                last[roots[tensor]] = index
    return last


class _Sharing:
    """Storages of root tensors while results are merged into inputs."""

    def __init__(self, tensors: Sequence[Tensor], roots: Sequence[TensorId]) -> None:
        self.tensors = tensors
        self.roots = roots
        self.storage = [StorageId(root) for root in roots]

    def storage_of(self, tensor: TensorId) -> StorageId:
        """Return the storage of a tensor or view."""
        return self.storage[self.roots[tensor]]

    def fits(self, out: TensorId, source: TensorId) -> bool:
        """Whether two tensors may share bytes at all."""
        a, b = self.tensors[out], self.tensors[self.roots[source]]
        return b.role in _SHAREABLE and (a.nbytes, a.dtype, a.batched) == (
            b.nbytes,
            b.dtype,
            b.batched,
        )

    def alone(self, step: Step, spec: OpSpec, out: str, source: TensorId) -> bool:
        """Whether every operand on the source's storage may share it with the result."""
        allowed = {pair[1] for pair in spec.inplace if pair[0] == out}
        return all(
            slot.name in allowed
            for slot, tensor in zip(spec.operands, step.operands, strict=True)
            if tensor is not None and self.storage_of(tensor) == self.storage_of(source)
        )


def share_storages(
    tensors: Sequence[Tensor], roots: Sequence[TensorId], steps: Sequence[Step]
) -> tuple[StorageId, ...]:
    """Return the storage of every tensor, numbered from 0 in order of tensors.

    Parameters
    ----------
    tensors : sequence of Tensor
        By id.
    roots : sequence of TensorId
        Per tensor the one whose bytes it shows: itself, or the viewed one.
    steps : sequence of Step
        In execution order, all phases.
    """
    last = _last_reads(steps, roots)
    sharing = _Sharing(tensors, roots)
    for index, step in enumerate(steps):
        spec, taken = spec_of(step.op), set()
        for out, source_name in spec.inplace:
            result = step.operands[spec.operand_index[out]]
            source = step.operands[spec.operand_index[source_name]]
            if result is None or source is None or out in taken:
                continue
            dead = last[roots[source]] == index
            if dead and sharing.fits(result, source) and sharing.alone(step, spec, out, source):
                sharing.storage[roots[result]] = sharing.storage_of(source)
                taken.add(out)
    numbers: dict[StorageId, StorageId] = {}
    for tensor in tensors:
        numbers.setdefault(sharing.storage_of(tensor.id), StorageId(len(numbers)))
    return tuple(numbers[sharing.storage_of(tensor.id)] for tensor in tensors)
