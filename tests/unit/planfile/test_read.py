"""The reader never trusts bytes: every damage is a PlanError that says what it is."""

from __future__ import annotations

import random
import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from armtrain.errors import PlanError
from armtrain.planfile import format as fmt
from armtrain.planfile.assemble import assemble
from armtrain.planfile.check import check_bytes
from armtrain.planfile.plan import Plan
from armtrain.planfile.read import decode
from armtrain.planfile.write import encode
from tests.plan_edit import get_field, sign, with_field
from tests.plans import linear_regression, mlp_classifier

CONTENT = encode(assemble(mlp_classifier()))


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
@example(12, 1)
def test_any_changed_byte_is_detected(place: int, change: int) -> None:
    changed = bytearray(CONTENT)
    changed[place] ^= change
    with pytest.raises(PlanError):
        decode(bytes(changed))
    with pytest.raises(PlanError):
        check_bytes(bytes(changed))


@given(st.integers(0, len(CONTENT) - 1))
def test_any_shorter_file_is_detected(length: int) -> None:
    with pytest.raises(PlanError):
        decode(CONTENT[:length])


def test_a_longer_file_is_detected() -> None:
    with pytest.raises(PlanError, match="copy it again"):
        decode(CONTENT + b"\0")


def test_signed_nonsense_never_crashes() -> None:
    # A file that lies and has a right checksum: refused or read, but nothing else happens.
    rng = random.Random(7)
    small = encode(assemble(linear_regression()))
    for _ in range(1500):
        changed = bytearray(small)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = rng.choice((0, 1, 255, rng.randrange(256)))
        if rng.random() < 0.8:
            content = sign(bytes(changed))
        else:
            struct.pack_into("<I", changed, 24, zlib.crc32(changed[fmt.CRC_START :]))
            content = bytes(changed)
        with suppress(PlanError):
            Plan.from_bytes(content)


@pytest.mark.parametrize(
    ("section", "field", "value", "cause"),
    [
        ("header", "magic", 0, "does not start like"),
        ("header", "version_major", 2, "format version 2.0"),
        ("header", "version_minor", 1, "format version 1.1"),
        ("header", "header_bytes", 260, "260 bytes"),
        ("header", "file_bytes", 7, "written with 7"),
        ("header", "reserved0", 1, "reserved"),
        ("header", "alignment", 32, "alignment is 32"),
        ("header", "batch_size", 0, "batch is 0"),
        ("header", "threads", 0, "0 threads"),
        ("header", "steps_offset", 1, "section steps starts at byte 1"),
        ("header", "tensors_count", 2**60, "section tensors has"),
        ("header", "n_train_steps", 1, "phases have"),
        ("header", "model_hash", 1, "model hash"),
        ("tensors", "name", 2, "no string starts at 2"),
        ("tensors", "ndim", 0, "0 dimensions"),
        ("tensors", "ndim", 7, "7 dimensions"),
        ("tensors", "dims", 0, "empty dimension"),
        ("tensors", "bytes", 4, "buffer of 4 B"),
        ("tensors", "perm", 3, "no permutation"),
        ("tensors", "role", 99, "unknown Role code 99"),
        ("tensors", "dtype", 99, "unknown DType code 99"),
        ("tensors", "init_kind", 99, "unknown InitKind code 99"),
        ("tensors", "batched", 2, "flag"),
        ("tensors", "reserved", 1, "reserved"),
        ("tensors", "shape_ndim", 9, "shape has 9"),
        ("tensors", "first", 1000, "live for steps"),
        ("steps", "op", 999, "unknown OpCode code 999"),
        ("steps", "phase", 2, "phase"),
        ("steps", "kind", 9, "kind"),
        ("steps", "n_operands", 1, "1 operands"),
        ("steps", "operands", 3, "outside their sections"),
        ("steps", "layer", 3, "no string starts at 3"),
        ("steps", "reserved", 1, "reserved"),
    ],
)
def test_each_lie_is_named(section: str, field: str, value: int, cause: str) -> None:
    with pytest.raises(PlanError, match=cause):
        decode(with_field(CONTENT, section, 0, field, value))


def test_an_operand_that_is_no_tensor() -> None:
    start = get_field(CONTENT, "header", 0, "operands_offset")
    changed = bytearray(CONTENT)
    struct.pack_into("<I", changed, start, 12345)
    with pytest.raises(PlanError, match="operand x is tensor 12345"):
        decode(sign(bytes(changed)))


@pytest.mark.parametrize("text", [b"[]", b"{}", b"{", b"\xff"])
def test_meta_that_is_not_ours(text: bytes) -> None:
    start = get_field(CONTENT, "header", 0, "meta_offset")
    content = CONTENT[:start] + text
    content = with_field(content, "header", 0, "meta_count", len(text))
    content = with_field(content, "header", 0, "file_bytes", len(content))
    with pytest.raises(PlanError, match="meta"):
        decode(content)
