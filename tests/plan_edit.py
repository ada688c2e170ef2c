"""Change single fields of a plan file and sign it again, to make files that lie."""

from __future__ import annotations

import hashlib
import struct
import zlib

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
