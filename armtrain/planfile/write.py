"""Plan content to bytes, laid out as `format.py` says; the same bytes on every host."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

from armtrain.dtypes import ALIGNMENT
from armtrain.errors import PlanError
from armtrain.ir.ops import spec_of
from armtrain.ir.program import Phase, Program, Step, Tensor
from armtrain.planfile import format as fmt
from armtrain.planfile.account import accounts, layer_table
from armtrain.planfile.data import PlanData
from armtrain.planfile.hash import model_hash, program_hash

__all__ = ["encode"]


class _Strings:
    """The string section: every text once, in order of first use, the empty one first."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")
        self._places = {"": 0}

    def place(self, text: str) -> int:
        """Return the offset of `text`, appending it when it is new."""
        if "\0" in text:
            raise PlanError(f"the name {text!r} holds a NUL character")
        if text not in self._places:
            self._places[text] = len(self.data)
            self.data += text.encode("utf-8") + b"\0"
        return self._places[text]


def _padded(values: tuple[int, ...], filler: int = 1) -> list[int]:
    """Return `values` filled up to MAX_DIMS."""
    return list(values) + [filler] * (fmt.MAX_DIMS - len(values))


def _tensor_record(tensor: Tensor, offset: int, first: int, last: int, name: int) -> bytes:
    """Return one packed tensor record."""
    layout, ndim = tensor.layout, len(tensor.dims)
    rank = len(layout.view)
    if not 1 <= ndim <= rank == len(layout.perm) <= fmt.MAX_DIMS or not layout.shape:
        raise PlanError(
            f"tensor '{tensor.name}': dims {tensor.dims}, view {layout.view}, perm {layout.perm}: "
            f"1 to {fmt.MAX_DIMS} dimensions are possible, view and perm need as many or more"
        )
    return fmt.TENSOR.struct.pack(
        offset,
        tensor.nbytes,
        tensor.init.a,
        tensor.init.b,
        name,
        tensor.storage,
        first,
        last,
        *_padded(tensor.dims),
        *_padded(layout.shape),
        *_padded(layout.view),
        *layout.perm,
        *range(rank, fmt.MAX_DIMS),
        ndim,
        len(layout.shape),
        tensor.role,
        tensor.dtype,
        int(tensor.batched),
        tensor.init.kind,
        *[0] * 4,
    )


def _tensor_section(data: PlanData, strings: _Strings) -> bytes:
    """Return all tensor records in order of their ids."""
    place = {
        item.storage: (offset, item.first, item.last)
        for item, offset in zip(data.lifetimes.items, data.offsets, strict=True)
    }
    return b"".join(
        _tensor_record(t, *place[t.storage], strings.place(t.name)) for t in data.program.tensors
    )


def _attr_bytes(step: Step) -> bytes:
    """Return the attribute slots of one step."""
    spec = spec_of(step.op)
    slots = spec.slots(len(step.attrs))
    if len(step.attrs) != len(slots) or len(step.operands) != len(spec.operands):
        raise PlanError(
            f"step {step.op.name} of layer '{step.layer}': {len(step.operands)} operands and "
            f"{len(step.attrs)} attributes, the catalogue has {len(spec.operands)} and "
            f"{len(slots)}"
        )
    return b"".join(
        struct.pack("<q", int(value)) if slot.kind == "i" else struct.pack("<d", value)
        for slot, value in zip(slots, step.attrs, strict=True)
    )


def _step_sections(program: Program, strings: _Strings) -> tuple[bytes, bytes, bytes]:
    """Return the steps, operands and attributes sections."""
    steps, operands, attrs = bytearray(), bytearray(), bytearray()
    for step in program.steps:
        steps += fmt.STEP.struct.pack(
            step.op,
            step.phase,
            len(step.operands),
            len(operands) // 4,
            len(attrs) // 8,
            len(step.attrs),
            fmt.STEP_KINDS.index(step.kind),
            0,
            strings.place(step.layer),
            0,
        )
        ids = [fmt.NONE_ID if operand is None else operand for operand in step.operands]
        operands += struct.pack(f"<{len(ids)}I", *ids)
        attrs += _attr_bytes(step)
    return bytes(steps), bytes(operands), bytes(attrs)


def _meta(data: PlanData) -> bytes:
    """Return the JSON section: canonical, for people and tools."""
    program = data.program
    value: dict[str, Any] = {
        "board": program.board,
        "clip_norm": program.clip_norm,
        "clip_value": program.clip_value,
        "derived": accounts(data),
        "floor_bytes": data.floor_bytes,
        "input_shape": list(program.input_shape),
        "layers": layer_table(program),
        "loss": program.loss,
        "model_text": program.model_text,
        "optimizer": program.optimizer,
        "packing": {"method": data.method, "nodes": data.nodes},
        "rates": None if data.rates is None else vars(data.rates),
        "storage": None if data.storage is None else vars(data.storage),
        "unbudgeted_bytes": data.unbudgeted_bytes,
    }
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8")


def _layout(sections: dict[str, bytes]) -> tuple[dict[str, int], bytes]:
    """Return the offset and count fields, and all sections with their gaps."""
    fields: dict[str, int] = {}
    body = bytearray()
    for name, entry_bytes in fmt.SECTIONS:
        start = fmt.HEADER.size + len(body)
        body += bytes(-start % 8)
        fields[f"{name}_offset"] = fmt.HEADER.size + len(body)
        fields[f"{name}_count"] = len(sections[name]) // entry_bytes
        body += sections[name]
    return fields, bytes(body)


def encode(data: PlanData) -> bytes:
    """Return the bytes of the plan file.

    Raises
    ------
    PlanError
        When the program breaks a rule that the format cannot express.
    """
    program = data.program
    strings = _Strings()
    sections = {"tensors": _tensor_section(data, strings), "swap": b"", "meta": _meta(data)}
    sections["steps"], sections["operands"], sections["attrs"] = _step_sections(program, strings)
    sections["strings"] = bytes(strings.data)
    fields, body = _layout(sections)
    hashed = body[: fields["strings_offset"] + fields["strings_count"] - fmt.HEADER.size]
    phases = [sum(s.phase == p for s in program.steps) for p in Phase]
    values: dict[str, int | bytes] = {
        "magic": fmt.MAGIC,
        "version_major": fmt.VERSION_MAJOR,
        "version_minor": fmt.VERSION_MINOR,
        "header_bytes": fmt.HEADER.size,
        "file_bytes": fmt.HEADER.size + len(body),
        "crc32": 0,
        "reserved0": 0,
        "model_hash": model_hash(program),
        "program_hash": program_hash(hashed, len(program.tensors)),
        "arena_bytes": data.arena_bytes,
        "lower_bound_bytes": data.lower_bound_bytes,
        "proved_minimum_bytes": data.proved_minimum_bytes,
        "budget_bytes": data.budget_bytes or 0,
        "batch_size": program.batch_size,
        "threads": program.threads,
        "alignment": ALIGNMENT,
        "n_train_steps": phases[Phase.TRAIN],
        "n_evaluate_steps": phases[Phase.EVALUATE],
        "n_predict_steps": phases[Phase.PREDICT],
        **fields,
    }
    header = fmt.HEADER.struct.pack(*[values[f.name] for f in fmt.HEADER.fields])
    file = bytearray(header + body)
    struct.pack_into("<I", file, 24, zlib.crc32(memoryview(file)[fmt.CRC_START :]))
    return bytes(file)
