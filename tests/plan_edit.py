"""Change single fields of a plan file and sign it again, to make files that lie."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import zlib

from armtrain.ir.ops import OPS, OpCode
from armtrain.ir.program import Phase
from armtrain.planfile import format as fmt

_RECORDS = {"tensors": fmt.TENSOR, "steps": fmt.STEP}


def _place(record: fmt.Record, field_name: str) -> tuple[int, fmt.Field]:
    """Return the offset of a field in its record."""
    offset = 0
    for field in record.fields:
        if field.name == field_name:
            return offset, field
        offset += struct.calcsize(f"<{field.count}{field.code}")
    raise KeyError(field_name)


def _address(content: bytes, section: str, index: int, field_name: str) -> tuple[int, fmt.Field]:
    """Return where a field lies in the file."""
    if section == "header":
        return _place(fmt.HEADER, field_name)
    record = _RECORDS[section]
    start = get_field(content, "header", 0, f"{section}_offset")
    offset, field = _place(record, field_name)
    return start + index * record.size + offset, field


def get_field(content: bytes, section: str, index: int, field_name: str) -> int:
    """Return the first value of a field."""
    address, field = _address(content, section, index, field_name)
    value: int = struct.unpack_from(f"<{field.code}", content, address)[0]
    return value


def with_field(
    content: bytes, section: str, index: int, field_name: str, value: int, element: int = 0
) -> bytes:
    """Return the file with one field changed, signed again."""
    address, field = _address(content, section, index, field_name)
    changed = bytearray(content)
    code = field.code.replace("s", "B")
    width = struct.calcsize("<" + code)
    struct.pack_into("<" + code, changed, address + element * width, value)
    return sign(bytes(changed))


def sign(content: bytes) -> bytes:
    """Return the file with program hash and checksum made to fit its content."""
    changed = bytearray(content)
    start = get_field(content, "header", 0, "tensors_offset")
    count = get_field(content, "header", 0, "tensors_count")
    stop = get_field(content, "header", 0, "strings_offset")
    stop += get_field(content, "header", 0, "strings_count")
    if start + count * fmt.TENSOR.size <= stop <= len(content):
        body = bytearray(changed[start:stop])
        for index in range(count):
            body[index * fmt.TENSOR.size : index * fmt.TENSOR.size + 8] = bytes(8)
        address, _ = _place(fmt.HEADER, "program_hash")
        changed[address : address + 32] = hashlib.sha256(body).digest()
    address, _ = _place(fmt.HEADER, "crc32")
    struct.pack_into("<I", changed, address, zlib.crc32(changed[fmt.CRC_START :]))
    return bytes(changed)


@dataclasses.dataclass
class Edit:
    """A plan file and changes to it."""

    content: bytes
    names: dict[str, int] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Find the tensors by name."""
        start = get_field(self.content, "header", 0, "strings_offset")
        self.names = {}
        for index in range(get_field(self.content, "header", 0, "tensors_count")):
            at_byte = start + get_field(self.content, "tensors", index, "name")
            stop = self.content.index(b"\0", at_byte)
            self.names[self.content[at_byte:stop].decode()] = index

    def get(self, name: str, what: str) -> int:
        """Return a number of a tensor."""
        return get_field(self.content, "tensors", self.names[name], what)

    def set(self, name: str, what: str, value: int, element: int = 0) -> None:
        """Change a number of a tensor."""
        self.content = with_field(self.content, "tensors", self.names[name], what, value, element)

    def share(self, name: str, other: str) -> None:
        """Move a tensor into the storage of another one."""
        for what in ("storage", "offset", "first", "last"):
            self.set(name, what, self.get(other, what))

    def step(self, op: OpCode, phase: Phase, nth: int = 0) -> int:
        """Return the nth step of a phase with an operation; -1 is the last."""
        count = get_field(self.content, "header", 0, "steps_count")
        kinds = [
            tuple(get_field(self.content, "steps", i, f) for f in ("op", "phase"))
            for i in range(count)
        ]
        return [i for i, kind in enumerate(kinds) if kind == (op, phase)][nth]

    def first_step(self, phase: Phase) -> int:
        """Return the first step of a phase."""
        counts = ("n_train_steps", "n_evaluate_steps", "n_predict_steps")
        return sum(get_field(self.content, "header", 0, c) for c in counts[:phase])

    def operation(self, step: int, op: OpCode) -> None:
        """Change the operation of a step."""
        self.content = with_field(self.content, "steps", step, "op", op)

    def operand(self, step: int, slot: str, name: str) -> None:
        """Let a step use another tensor."""
        spec = OPS[OpCode(get_field(self.content, "steps", step, "op"))]
        index = get_field(self.content, "steps", step, "operands") + spec.operand_index[slot]
        place = get_field(self.content, "header", 0, "operands_offset") + 4 * index
        new = struct.pack("<I", self.names[name])
        self.content = sign(self.content[:place] + new + self.content[place + 4 :])

    def integer(self, step: int, attr: str, value: int) -> None:
        """Change an attribute of a step."""
        spec = OPS[OpCode(get_field(self.content, "steps", step, "op"))]
        index = get_field(self.content, "steps", step, "attrs") + spec.attr_index[attr]
        place = get_field(self.content, "header", 0, "attrs_offset") + 8 * index
        new = struct.pack("<q", value)
        self.content = sign(self.content[:place] + new + self.content[place + 8 :])
