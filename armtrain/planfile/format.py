"""Record layouts of the plan file, version 1: the one place where bytes are assigned.

`docs/plan-format.md` specifies the same bytes in prose; `kernels/include/art_plan.h` is generated
from the tables below by `scripts/gen_c_headers.py`. Everything is little-endian, naturally
aligned, without implicit padding. Unknown versions, non-zero reserved bytes, trailing bytes and
gaps between sections are refused.

File = header, then the sections in `SECTIONS` order, each starting at the next multiple of 8
(gap bytes zero), the file ending right after the last section. `crc32` (zlib's polynomial)
covers all bytes from `CRC_START` to the end of the file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = [
    "CRC_START",
    "HEADER",
    "MAGIC",
    "MAX_DIMS",
    "MAX_OPERANDS",
    "NONE_ID",
    "SECTIONS",
    "STEP",
    "SWAP",
    "TENSOR",
    "VERSION_MAJOR",
    "VERSION_MINOR",
    "Field",
    "Record",
]

MAGIC = b"ARTPLAN\n"
VERSION_MAJOR = 1
VERSION_MINOR = 0
NONE_ID = 0xFFFFFFFF
MAX_DIMS = 6
MAX_OPERANDS = 10
CRC_START = 28


@dataclass(frozen=True)
class Field:
    """One record field: struct `code` (B H I Q d s), `count` > 1 for arrays, C comment."""

    name: str
    code: str
    count: int = 1
    comment: str = ""


@dataclass(frozen=True)
class Record:
    """A fixed-size record as a list of fields."""

    name: str
    fields: tuple[Field, ...]

    @property
    def struct(self) -> struct.Struct:
        """Return the packed little-endian struct of all fields, arrays flattened."""
        return struct.Struct(
            "<" + "".join(f.code if f.count == 1 else f"{f.count}{f.code}" for f in self.fields)
        )

    @property
    def size(self) -> int:
        """Bytes of the record."""
        return self.struct.size


HEADER = Record(
    "header",
    (
        Field("magic", "s", 8, "ARTPLAN and a line feed"),
        Field("version_major", "H", 1, "1"),
        Field("version_minor", "H", 1, "0"),
        Field("header_bytes", "I", 1, "size of this record"),
        Field("file_bytes", "Q", 1, "size of the whole file"),
        Field("crc32", "I", 1, "zlib CRC-32 of every byte from offset 28 on"),
        Field("reserved0", "I", 1, "0"),
        Field("model_hash", "s", 32, "SHA-256 of the model text"),
        Field("program_hash", "s", 32, "SHA-256 of tensors to strings, every tensor offset zeroed"),
        Field("arena_bytes", "Q", 1, "everything the engine maps; multiple of 64"),
        Field("lower_bound_bytes", "Q", 1, "most aligned bytes live at one step"),
        Field("proved_minimum_bytes", "Q", 1, "best proved lower bound, >= lower_bound_bytes"),
        Field("budget_bytes", "Q", 1, "budget the user gave, 0 for none"),
        Field("batch_size", "I", 1, "planned samples per batch, >= 1"),
        Field("threads", "I", 1, "planned threads, >= 1; threads - 1 stacks are planned"),
        Field("alignment", "I", 1, "64"),
        Field("n_train_steps", "I", 1, "steps of phase TRAIN come first"),
        Field("n_evaluate_steps", "I", 1, "then EVALUATE"),
        Field("n_predict_steps", "I", 1, "then PREDICT"),
        Field("tensors_offset", "Q"),
        Field("tensors_count", "Q", 1, "records"),
        Field("steps_offset", "Q"),
        Field("steps_count", "Q", 1, "records"),
        Field("operands_offset", "Q"),
        Field("operands_count", "Q", 1, "u32 tensor ids, 0xFFFFFFFF for none"),
        Field("attrs_offset", "Q"),
        Field("attrs_count", "Q", 1, "8-byte slots, int64 or float64 by the operation's catalogue"),
        Field("swap_offset", "Q"),
        Field("swap_count", "Q", 1, "records; 0 in version 1.0"),
        Field("strings_offset", "Q"),
        Field("strings_count", "Q", 1, "bytes; UTF-8, each string ends with NUL, first is empty"),
        Field("meta_offset", "Q"),
        Field("meta_count", "Q", 1, "bytes of JSON for people and tools; the engine ignores it"),
    ),
)

TENSOR = Record(
    "tensor",
    (
        Field("offset", "Q", 1, "bytes from the arena's start, multiple of 64"),
        Field("bytes", "Q", 1, "exact bytes at the planned batch"),
        Field("init_a", "d", 1, "see art_init"),
        Field("init_b", "d"),
        Field("name", "I", 1, "offset in strings"),
        Field("storage", "I", 1, "tensors of equal storage share one address"),
        Field("first", "I", 1, "first step at which the storage is live"),
        Field("last", "I", 1, "one past the last step at which it is live"),
        Field("dims", "I", MAX_DIMS, "arena dimensions, unused ones 1"),
        Field("shape", "I", MAX_DIMS, "the user's dimensions, unused ones 1"),
        Field("view", "I", MAX_DIMS, "the user's array viewed, unused ones 1"),
        Field("perm", "B", MAX_DIMS, "arena axis i is view axis perm[i], unused ones i"),
        Field("ndim", "B", 1, "used entries of dims; view and perm may use more"),
        Field("shape_ndim", "B", 1, "used entries of shape"),
        Field("role", "B"),
        Field("dtype", "B"),
        Field("batched", "B", 1, "1: dims[0], shape[0], view[0] are the batch"),
        Field("init_kind", "B"),
        Field("reserved", "B", 4, "0"),
    ),
)

STEP = Record(
    "step",
    (
        Field("op", "H", 1, "operation code"),
        Field("phase", "B"),
        Field("n_operands", "B", 1, "as in the operation's catalogue entry"),
        Field("operands", "I", 1, "index of the first operand"),
        Field("attrs", "I", 1, "index of the first attribute slot"),
        Field("n_attrs", "H"),
        Field("kind", "B", 1, "0 F, 1 CG, 2 CD, 3 AG, 4 L"),
        Field("reserved", "B", 1, "0"),
        Field("layer", "I", 1, "offset in strings"),
        Field("reserved1", "I", 1, "0"),
    ),
)

SWAP = Record(
    "swap",
    (
        Field("before_step", "I", 1, "the action happens before this step"),
        Field("action", "H", 1, "0 start-in, 1 start-out, 2 wait"),
        Field("ticket", "H"),
        Field("arena_offset", "Q"),
        Field("file_offset", "Q"),
        Field("bytes", "Q"),
    ),
)

SECTIONS = (
    ("tensors", TENSOR.size),
    ("steps", STEP.size),
    ("operands", 4),
    ("attrs", 8),
    ("swap", SWAP.size),
    ("strings", 1),
    ("meta", 1),
)
"""Section names in file order, bytes of one entry; HEADER has `NAME_offset` and `NAME_count`."""

STEP_KINDS = ("F", "CG", "CD", "AG", "L")
