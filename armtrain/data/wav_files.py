"""WAV files: PCM of 8, 16, 24 or 32 bits and 32-bit floats, as numbers in [-1, 1).

A RIFF file is a list of chunks: four letters, size, content, padded to an even size. 'fmt ' says
how samples are stored (tag 1 PCM, 3 floats, 65534 "extensible" with the tag in its first two
extra bytes), 'data' holds them. Every size is checked against the file's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from armtrain.data.columns import read_at

__all__ = ["Sound", "read_header", "read_sound"]

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_ENCODINGS = {(_PCM, 8), (_PCM, 16), (_PCM, 24), (_PCM, 32), (_FLOAT, 32)}
_MAX_CHANNELS = 64


@dataclass(frozen=True)
class Sound:
    """Where and how the samples of a file are stored.

    Attributes
    ----------
    rate : int
        Frames a second.
    channels : int
    bits : int
        Of one sample.
    is_float : bool
    offset : int
        First byte of the samples.
    frames : int
    """

    rate: int
    channels: int
    bits: int
    is_float: bool
    offset: int
    frames: int


def _number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def read_header(file: BinaryIO) -> Sound:
    """Find the samples of a file; raises ValueError with the reason when it has none to use."""
    total = os.fstat(file.fileno()).st_size
    head = os.pread(file.fileno(), 12, 0)
    if not head:
        raise ValueError("the file is empty (0 B)")
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        raise ValueError(f"it is no WAV file: it starts with {head!r}")
    at, form = 12, b""
    while at + 8 <= total:
        chunk = os.pread(file.fileno(), 8, at)
        size = _number(chunk, 4, 4)
        if chunk[:4] == b"data" and form:
            return _sound(form, at + 8, size, total)
        if chunk[:4] == b"fmt ":
            form = os.pread(file.fileno(), min(size, 40), at + 8)
            if len(form) < 16:
                raise ValueError(f"its format takes {len(form)} B, at least 16 B are needed")
        at += 8 + size + size % 2
    raise ValueError(f"it has no {'samples' if form else 'format'} in its {total} B")


def _sound(form: bytes, offset: int, size: int, total: int) -> Sound:
    """Check format and size."""
    tag, channels, rate = _number(form, 0, 2), _number(form, 2, 2), _number(form, 4, 4)
    block, bits = _number(form, 12, 2), _number(form, 14, 2)
    if tag == _EXTENSIBLE and len(form) >= 26:
        tag = _number(form, 24, 2)
    if (tag, bits) not in _ENCODINGS:
        raise ValueError(
            f"its samples have encoding {tag} with {bits} bits; 8, 16, 24 or 32 bits of PCM (1) "
            "and 32-bit floats (3) can be read"
        )
    if not 1 <= channels <= _MAX_CHANNELS or block != channels * bits // 8 or not rate:
        raise ValueError(f"its format is damaged: {channels} channels, {block} B a frame")
    if size > total - offset:
        raise ValueError(
            f"it is cut off: {size} B of samples are said to be there, {total - offset} B are"
        )
    frames = size // block
    if not frames:
        raise ValueError("it holds no samples")
    return Sound(rate, channels, bits, tag == _FLOAT, offset, frames)


def read_sound(
    name: str, file: BinaryIO, sound: Sound, first: int, out: NDArray[np.float32]
) -> None:
    """Write frames [first, first + len(out)) as the mean of their channels.

    PCM values are divided by 2^(bits - 1), bytes less 128; one rounding to float32 for one
    channel, channels are added in double precision.

    Raises
    ------
    StorageError
        The file cannot be read, or has become shorter.
    """
    width = sound.bits // 8
    raw = np.empty((len(out), sound.channels, width), np.uint8)
    start = sound.offset + first * sound.channels * width
    read_at(name, file, raw.reshape(-1).data, start)
    if sound.is_float:
        values = raw.view("<f4")[..., 0].astype(np.float64)
    elif width == 1:
        values = raw[..., 0].astype(np.float64) - 128.0
    else:
        # The upper bytes of an int32: the sign comes along.
        whole = np.zeros((*raw.shape[:2], 4), np.uint8)
        whole[..., 4 - width :] = raw
        values = (whole.view("<i4")[..., 0] >> (32 - sound.bits)).astype(np.float64)
    scale = 1.0 if sound.is_float else 2.0 ** (sound.bits - 1)
    out[...] = values.sum(axis=1) / (scale * sound.channels)
