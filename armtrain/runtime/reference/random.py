"""NumPy twin of kernels/core/rng.h: Philox4x32-10 and what is made from its words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtrain.runtime.reference.arena import Array

__all__ = ["dropout_uniform", "normal", "philox", "random_u32", "stream_of_name", "uniform"]

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_MASK64 = (1 << 64) - 1
_STEP_FACTOR = 0x9E3779B97F4A7C15


def philox(seed: int, stream: int, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the four 32-bit words of every block, shape (len(blocks), 4).

    References
    ----------
    Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 4.3.
    """
    key = [seed & 0xFFFFFFFF, seed >> 32]
    low, high = np.uint64(stream & 0xFFFFFFFF), np.uint64(stream >> 32)
    c0, c1 = blocks & _LOW, blocks >> _SHIFT
    c2, c3 = np.full_like(blocks, low), np.full_like(blocks, high)
    for _ in range(_ROUNDS):
        product0, product1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        k0, k1 = np.uint64(key[0]), np.uint64(key[1])
        c0, c1, c2, c3 = (
            (product1 >> _SHIFT) ^ c1 ^ k0,
            product1 & _LOW,
            (product0 >> _SHIFT) ^ c3 ^ k1,
            product0 & _LOW,
        )
        key = [(k + step) & 0xFFFFFFFF for k, step in zip(key, _KEY_STEPS, strict=True)]
    return np.stack([c0, c1, c2, c3], axis=1)


def random_u32(seed: int, stream: int, count: int) -> NDArray[np.uint64]:
    """Return the words with index 0 .. count-1: word index % 4 of block index // 4."""
    blocks = np.arange(-(-count // 4), dtype=np.uint64)
    return philox(seed, stream, blocks).reshape(-1)[:count]


def uniform(seed: int, stream: int, count: int) -> Array:
    """Return `count` numbers in [0, 1), multiples of 2^-24."""
    words = random_u32(seed, stream, count) >> np.uint64(8)
    return words.astype(np.float64) * 2.0**-24


def normal(seed: int, stream: int, count: int) -> Array:
    """Return `count` standard normal numbers by Box and Muller's formula, two per block."""
    words = philox(seed, stream, np.arange(-(-count // 2), dtype=np.uint64))
    high, low = words[:, 0::2] << _SHIFT, words[:, 1::2]
    bits = ((high | low) >> np.uint64(11)).astype(np.float64)
    radius = np.sqrt(-2.0 * np.log((bits[:, 0] + 1.0) * 2.0**-53))
    angle = 2.0 * np.pi * bits[:, 1] * 2.0**-53
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:count]


def dropout_uniform(seed: int, stream: int, step: int, count: int) -> Array:
    """Return the numbers that decide dropout at optimiser step `step`."""
    return uniform(seed, (stream ^ ((step + 1) * _STEP_FACTOR)) & _MASK64, count)


def stream_of_name(name: str) -> int:
    """Return the 64-bit FNV-1a hash of a name."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & _MASK64
    return value
