"""The checker's own view of a plan file: records as they are, nothing interpreted.

It shares the record tables with the writer and the reader, and no code.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from armtrain.errors import PlanError
from armtrain.planfile import format as fmt

__all__ = ["RawPlan", "parse"]


@dataclass(frozen=True)
class RawPlan:
    """Header, tensor and step records as dicts of their fields, and the flat sections."""

    header: dict[str, Any]
    tensors: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    operands: tuple[int, ...]
    attrs: bytes
    strings: bytes

    def text(self, offset: int) -> str:
        """Return the string at `offset` of the strings section."""
        stop = self.strings.find(b"\0", offset)
        if offset >= len(self.strings) or stop < 0:
            raise PlanError(f"a name starts at byte {offset} of {len(self.strings)} string bytes")
        return self.strings[offset:stop].decode("utf-8", errors="replace")

    def name(self, tensor: int) -> str:
        """Return the name of a tensor."""
        return self.text(self.tensors[tensor]["name"])


def _unpack(record: fmt.Record, data: bytes) -> dict[str, Any]:
    """Return the fields of one record, read one by one at their own offsets."""
    fields: dict[str, Any] = {}
    offset = 0
    for field in record.fields:
        code = f"<{field.count}{field.code}"
        values = struct.unpack_from(code, data, offset)
        fields[field.name] = values[0] if len(values) == 1 else values
        offset += struct.calcsize(code)
    return fields


def _sections(content: bytes, header: dict[str, Any]) -> dict[str, bytes]:
    """Return the bytes of every section."""
    parts, covered = {}, fmt.HEADER.size
    for name, size in fmt.SECTIONS:
        start, length = header[name + "_offset"], header[name + "_count"] * size
        if start % 8 or not covered <= start < covered + 8 or start + length > len(content):
            raise PlanError(
                f"section {name} takes bytes [{start},{start + length}) of a file of "
                f"{len(content)} bytes, but must start at the next multiple of 8 from {covered}"
            )
        if content[covered:start].strip(b"\0"):
            raise PlanError(f"bytes [{covered},{start}) before section {name} are not zero")
        parts[name] = content[start : start + length]
        covered = start + length
    if covered != len(content):
        raise PlanError(f"{len(content) - covered} bytes follow the last section")
    return parts


def _check_program_hash(content: bytes, header: dict[str, Any], parts: dict[str, bytes]) -> None:
    """Refuse when the program hash is not that of the sections before meta."""
    hasher = hashlib.sha256()
    records = parts["tensors"]
    for start in range(0, len(records), fmt.TENSOR.size):
        hasher.update(bytes(8) + records[start + 8 : start + fmt.TENSOR.size])
    after = header["tensors_offset"] + len(records)
    hasher.update(content[after : header["strings_offset"] + header["strings_count"]])
    if hasher.digest() != header["program_hash"]:
        raise PlanError("the program hash differs from the program in the file")


def parse(content: bytes) -> RawPlan:
    """Split a plan file into records.

    Raises
    ------
    PlanError
        When the file is damaged: size, checksum, hash or section table.
    """
    if len(content) < fmt.HEADER.size or content[: len(fmt.MAGIC)] != fmt.MAGIC:
        raise PlanError(f"{len(content)} bytes that do not start like an armtrain plan")
    header = _unpack(fmt.HEADER, content)
    if (header["version_major"], header["version_minor"]) != (fmt.VERSION_MAJOR, fmt.VERSION_MINOR):
        raise PlanError(f"format version {header['version_major']}.{header['version_minor']}")
    if header["header_bytes"] != fmt.HEADER.size:
        raise PlanError(
            f"a header of {header['header_bytes']} bytes, {fmt.HEADER.size} in this version"
        )
    crc = zlib.crc32(content[fmt.CRC_START :])
    if header["file_bytes"] != len(content) or header["crc32"] != crc:
        raise PlanError(
            f"checksum {crc:08x} of {len(content)} bytes, written as {header['crc32']:08x} of "
            f"{header['file_bytes']}: the file was changed or damaged, copy it again"
        )
    parts = _sections(content, header)
    _check_program_hash(content, header, parts)
    tensors = [
        _unpack(fmt.TENSOR, parts["tensors"][i : i + fmt.TENSOR.size])
        for i in range(0, len(parts["tensors"]), fmt.TENSOR.size)
    ]
    steps = [
        _unpack(fmt.STEP, parts["steps"][i : i + fmt.STEP.size])
        for i in range(0, len(parts["steps"]), fmt.STEP.size)
    ]
    operands = struct.unpack(f"<{header['operands_count']}I", parts["operands"])
    return RawPlan(header, tensors, steps, operands, parts["attrs"], parts["strings"])
