"""Byte counts as people write them: '512 KiB', '2 MiB', '80MiB', '1.5GB', 1000000."""

from __future__ import annotations

import re
from fractions import Fraction

from armtrain.errors import ArgumentError
from armtrain.limits import MAX_ARENA_BYTES, MAX_UINT64

__all__ = ["parse_bytes"]

_UNITS = {
    "": 1,
    "b": 1,
    **{f"{p}ib": 1024 ** (i + 1) for i, p in enumerate("kmgt")},
    **{f"{p}b": 1000 ** (i + 1) for i, p in enumerate("kmgt")},
}


def parse_bytes(value: int | str) -> int:
    """Return the bytes of a number or text.

    Parameters
    ----------
    value : int or str
        Bytes, or a number with a unit: B, KiB, MiB, GiB, TiB (powers of 1024), kB, MB, GB, TB
        (powers of 1000); upper or lower case. A fraction of a byte is dropped.

    Raises
    ------
    ArgumentError
        When the text is no byte count, not positive, or more than a plan can record.

    Examples
    --------
    >>> parse_bytes("512 KiB"), parse_bytes("1.5GB"), parse_bytes(640)
    (524288, 1500000000, 640)
    """
    match = re.fullmatch(r"\s*(\d{1,40}(?:\.\d{1,40})?)\s*([a-zA-Z]*)\s*", str(value))
    unit = _UNITS.get(match[2].lower()) if match else None
    result = int(Fraction(match[1]) * unit) if match and unit else 0
    if result > MAX_UINT64:
        raise ArgumentError(
            f"{value!r} is more than a plan can record, {MAX_UINT64} bytes; the largest arena has "
            f"{MAX_ARENA_BYTES} bytes"
        )
    if result < 1 or isinstance(value, bool):
        raise ArgumentError(
            f"{value!r} is no byte count: write for example 524288, '512 KiB', '2 MiB' or '1.5 GB'"
        )
    return result
