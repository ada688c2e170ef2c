"""The growing list of tensors and steps; storages are assigned at the end, by `inplace`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from armtrain.dtypes import DType
from armtrain.ir.ops import OpCode, spec_of
from armtrain.ir.program import Init, Layout, Phase, Role, Step, StorageId, Tensor, TensorId
from armtrain.ir.workspace import workspace_bytes

__all__ = ["Emitter", "Place", "stream_of_name"]

_PREFIX = {Phase.TRAIN: "", Phase.EVALUATE: "eval:", Phase.PREDICT: "predict:"}


@dataclass(frozen=True)
class Place:
    """Where a step belongs: `layer` and `kind` as in `Step`."""

    phase: Phase
    layer: str
    kind: str


class Emitter:
    """Makes tensors with unique names and steps with their workspace.

    Every tensor gets a storage of its own, except views. `roots[t]` is the tensor whose bytes
    tensor t shows: itself, or the viewed one.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.tensors: list[Tensor] = []
        self.roots: list[TensorId] = []
        self._names: dict[str, int] = {}
        self._views: dict[tuple[TensorId, tuple[int, ...]], TensorId] = {}

    def fork(self) -> Emitter:
        """Return an emitter with the same content, which grows on its own."""
        other = Emitter(self.threads)
        other.tensors, other.roots = list(self.tensors), list(self.roots)
        other._names, other._views = dict(self._names), dict(self._views)
        return other

    def _unique(self, name: str) -> str:
        """Return `name`, with a number if it is taken."""
        while name in self._names:
            self._names[name] += 1
            name = f"{name}~{self._names[name]}"
        self._names[name] = 1
        return name

    def tensor(
        self,
        name: str,
        role: Role,
        dims: tuple[int, ...],
        *,
        phase: Phase = Phase.TRAIN,
        layout: Layout | None = None,
        dtype: DType = DType.F32,
        batched: bool = False,
        init: Init | None = None,
    ) -> TensorId:
        """Append a tensor with a storage of its own."""
        tensor_id = TensorId(len(self.tensors))
        name = self._unique(_PREFIX[phase] + name)
        self.roots.append(tensor_id)
        self.tensors.append(
            Tensor(
                tensor_id,
                name,
                role,
                dtype,
                dims,
                batched,
                StorageId(tensor_id),
                _as_wide(layout or Layout.plain(dims), len(dims)),
                init or Init(),
            )
        )
        return tensor_id

    def view(
        self,
        source: TensorId,
        name: str,
        dims: tuple[int, ...],
        layout: Layout,
        phase: Phase = Phase.TRAIN,
    ) -> TensorId:
        """Return a tensor of other dimensions over the bytes of `source`, made once."""
        root = self.roots[source]
        if self.tensors[root].dims == dims:
            return root
        if (root, dims) not in self._views:
            of = self.tensors[root]
            role = Role.ACTIVATION if of.role == Role.INPUT else of.role
            view = self.tensor(
                name, role, dims, phase=phase, layout=layout, dtype=of.dtype, batched=of.batched
            )
            self.roots[view] = root
            self._views[root, dims] = view
        return self._views[root, dims]

    def step(
        self,
        op: OpCode,
        place: Place,
        attrs: Mapping[str, Any] | None = None,
        **operands: TensorId | None,
    ) -> Step:
        """Return a step; a needed workspace tensor is added. A tail's value is a sequence."""
        spec = spec_of(op)
        given = attrs or {}
        values = tuple(
            float(given[a.name]) if a.kind == "f" else int(given[a.name]) for a in spec.attrs
        )
        if spec.tail is not None:
            values += tuple(given.get(spec.tail.name) or ())
        ids = [operands.get(slot.name) for slot in spec.operands]
        dims = tuple(None if i is None else self.tensors[i].dims for i in ids)
        need = workspace_bytes(op, dims, values, self.threads)
        if need > 0:
            name = f"{place.layer}.{op.name.lower()}.ws"
            ids[spec.operand_index["ws"]] = self.tensor(
                name, Role.WORKSPACE, (need,), phase=place.phase, dtype=DType.U8
            )
        return Step(op, place.phase, tuple(ids), values, place.layer, place.kind)


def _as_wide(layout: Layout, rank: int) -> Layout:
    """Return a layout whose view has as many axes as the arena's array: the last ones are 1."""
    axes = len(layout.view)
    if axes >= rank:
        return layout
    ones = (1,) * (rank - axes)
    return Layout(layout.shape, (*layout.view, *ones), (*layout.perm, *range(axes, rank)))


def stream_of_name(name: str) -> int:
    """Return the 64-bit FNV-1a hash of `name` as a signed integer, as steps store it."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >> 63 else value
