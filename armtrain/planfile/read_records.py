"""Tensor and step records of a plan file as objects, every index and code checked before use."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, TypeVar

from armtrain.dtypes import DType
from armtrain.errors import PlanError
from armtrain.ir.ops import OPS, OpCode
from armtrain.ir.program import (
    Init,
    InitKind,
    Layout,
    Phase,
    Role,
    Step,
    StorageId,
    Tensor,
    TensorId,
)
from armtrain.planfile import format as fmt

__all__ = ["Fields", "StepReader", "Texts", "read_record", "read_tensor", "require"]

_E = TypeVar("_E", bound=IntEnum)
Fields = dict[str, Any]


def require(condition: bool, message: str) -> None:
    """Raise PlanError with `message` unless `condition` holds."""
    if not condition:
        raise PlanError(message)


def read_record(record: fmt.Record, content: bytes, start: int) -> Fields:
    """Return one record's fields by name, arrays as tuples."""
    values = record.struct.unpack_from(content, start)
    result: Fields = {}
    place = 0
    for field in record.fields:
        if field.code == "s" or field.count == 1:
            result[field.name] = values[place]
            place += 1
        else:
            result[field.name] = values[place : place + field.count]
            place += field.count
    return result


def _enum(kind: type[_E], value: int, what: str) -> _E:
    """Return `value` as a member of `kind`."""
    try:
        return kind(value)
    except ValueError:
        raise PlanError(f"{what}: unknown {kind.__name__} code {value}") from None


class Texts:
    """The strings section: offset of a string's first byte to its text."""

    def __init__(self, data: bytes) -> None:
        require(
            data[:1] == b"\0" and data[-1:] == b"\0",
            "the strings section does not start and end with NUL",
        )
        self._texts: dict[int, str] = {}
        start = 0
        for piece in data[:-1].split(b"\0"):
            try:
                self._texts[start] = piece.decode("utf-8")
            except UnicodeDecodeError:
                raise PlanError(f"the string at {start} is not UTF-8") from None
            start += len(piece) + 1

    def at(self, offset: int, what: str) -> str:
        """Return the string that starts at `offset`."""
        require(offset in self._texts, f"{what}: no string starts at {offset}")
        return self._texts[offset]


def _layout(fields: Fields, name: str) -> Layout:
    """Return the user's layout of a tensor record, trailing unused dimensions dropped."""
    view, perm, shape = fields["view"], fields["perm"], fields["shape"]
    shape_ndim = fields["shape_ndim"]
    require(
        1 <= shape_ndim <= fmt.MAX_DIMS and all(d == 1 for d in shape[shape_ndim:]),
        f"tensor '{name}': its shape has {shape_ndim} dimensions, 1 to {fmt.MAX_DIMS} expected "
        "and unused ones 1",
    )
    require(sorted(perm) == list(range(fmt.MAX_DIMS)), f"tensor '{name}': {perm} is no permutation")
    rank = fmt.MAX_DIMS
    while rank > fields["ndim"] and view[rank - 1] == 1 and perm[rank - 1] == rank - 1:
        rank -= 1
    return Layout(shape[:shape_ndim], view[:rank], perm[:rank])


def read_tensor(index: int, fields: Fields, texts: Texts) -> Tensor:
    """Return the tensor of one record."""
    name = texts.at(fields["name"], f"tensor {index}")
    ndim, dims = fields["ndim"], fields["dims"]
    require(
        1 <= ndim <= fmt.MAX_DIMS and all(d == 1 for d in dims[ndim:]),
        f"tensor '{name}' has {ndim} dimensions, 1 to {fmt.MAX_DIMS} expected and unused ones 1",
    )
    require(
        all(d >= 1 for key in ("dims", "shape", "view") for d in fields[key]),
        f"tensor '{name}' has an empty dimension",
    )
    require(
        fields["batched"] in (0, 1) and not any(fields["reserved"]),
        f"tensor '{name}': a flag or a reserved byte is out of range",
    )
    tensor = Tensor(
        TensorId(index),
        name,
        _enum(Role, fields["role"], f"tensor '{name}'"),
        _enum(DType, fields["dtype"], f"tensor '{name}'"),
        dims[:ndim],
        bool(fields["batched"]),
        StorageId(fields["storage"]),
        _layout(fields, name),
        Init(
            _enum(InitKind, fields["init_kind"], f"tensor '{name}'"),
            fields["init_a"],
            fields["init_b"],
        ),
    )
    require(
        tensor.nbytes == fields["bytes"],
        f"tensor '{name}' has a buffer of {fields['bytes']} B, its dimensions {tensor.dims} "
        f"need {tensor.nbytes} B",
    )
    return tensor


def _phase_of(head: Fields, index: int) -> Phase:
    """Return the phase that the header assigns to a step."""
    if index < head["n_train_steps"]:
        return Phase.TRAIN
    if index < head["n_train_steps"] + head["n_evaluate_steps"]:
        return Phase.EVALUATE
    return Phase.PREDICT


class StepReader:
    """Reads steps; operands and attributes must follow each other without gaps."""

    def __init__(self, head: Fields, content: bytes, texts: Texts) -> None:
        self.head, self.content, self.texts = head, content, texts
        self.operands = self.attrs = 0

    def step(self, index: int) -> Step:
        """Return step `index`."""
        head = self.head
        fields = read_record(fmt.STEP, self.content, head["steps_offset"] + index * fmt.STEP.size)
        what = f"step {index}"
        op = _enum(OpCode, fields["op"], what)
        spec = OPS[op]
        require(
            fields["phase"] == _phase_of(head, index)
            and fields["kind"] < len(fmt.STEP_KINDS)
            and fields["reserved"] == fields["reserved1"] == 0,
            f"{what} ({op.name}): its phase, kind or a reserved field is out of range",
        )
        counts = (fields["n_operands"], fields["n_attrs"])
        expected = (len(spec.operands), len(spec.slots(counts[1])))
        require(
            counts == expected,
            f"{what} ({op.name}) has {counts[0]} operands and {counts[1]} attributes, "
            f"{expected[0]} and {expected[1]} expected",
        )
        require(
            (fields["operands"], fields["attrs"]) == (self.operands, self.attrs)
            and self.operands + counts[0] <= head["operands_count"]
            and self.attrs + counts[1] <= head["attrs_count"],
            f"{what} ({op.name}): its operands or attributes lie outside their sections",
        )
        return Step(
            op,
            Phase(fields["phase"]),
            self._operands(op, what),
            self._attrs(op, counts[1]),
            self.texts.at(fields["layer"], what),
            fmt.STEP_KINDS[fields["kind"]],
        )

    def _operands(self, op: OpCode, what: str) -> tuple[TensorId | None, ...]:
        """Return the next operands."""
        slots = OPS[op].operands
        start = self.head["operands_offset"] + 4 * self.operands
        ids = struct.unpack_from(f"<{len(slots)}I", self.content, start)
        self.operands += len(slots)
        for slot, value in zip(slots, ids, strict=True):
            absent = value == fmt.NONE_ID and slot.optional
            require(
                absent or value < self.head["tensors_count"],
                f"{what} ({op.name}): operand {slot.name} is tensor {value} of "
                f"{self.head['tensors_count']}",
            )
        return tuple(None if i == fmt.NONE_ID else TensorId(i) for i in ids)

    def _attrs(self, op: OpCode, count: int) -> tuple[int | float, ...]:
        """Return the next attributes."""
        kinds = "".join("q" if a.kind == "i" else "d" for a in OPS[op].slots(count))
        start = self.head["attrs_offset"] + 8 * self.attrs
        self.attrs += len(kinds)
        return struct.unpack_from("<" + kinds, self.content, start)
