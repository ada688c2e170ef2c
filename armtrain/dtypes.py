"""Element types of tensors in a plan, and sizes in bytes."""

from __future__ import annotations

from enum import IntEnum
from math import prod

__all__ = ["ALIGNMENT", "STACK_BYTES", "DType", "align_up", "format_bytes", "nbytes"]

ALIGNMENT = 64
"""Every storage starts at a multiple of this many bytes, and its size is rounded up to it."""
STACK_BYTES = 131072
"""Bytes of one worker thread's stack, the least that every supported libc accepts."""


class DType(IntEnum):
    """Element type; the value is the code written into plan files (append only)."""

    F32 = 0
    F64 = 1
    I32 = 2
    U8 = 3
    I64 = 4

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEMSIZE[self]


_ITEMSIZE = {DType.F32: 4, DType.F64: 8, DType.I32: 4, DType.U8: 1, DType.I64: 8}


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def nbytes(dims: tuple[int, ...], dtype: DType) -> int:
    """Return the bytes of a dense array of `dims` elements of `dtype`."""
    return prod(dims) * dtype.itemsize


def align_up(size_bytes: int, alignment: int = ALIGNMENT) -> int:
    """Round `size_bytes` up to a multiple of `alignment`."""
    return -(-size_bytes // alignment) * alignment


def format_bytes(size_bytes: int) -> str:
    """Return bytes for people: '640 B', '12.5 KiB', '3.21 MiB'."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    power = min((size_bytes.bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{size_bytes / 1024**power:.2f} {_UNITS[power]}"
