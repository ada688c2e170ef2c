"""The embedded digits: 1,797 handwritten digits of 8x8 pixels, values 0 to 16.

The split is fixed and stratified: in file order, every fifth sample of each class, starting
with the third, belongs to the test part (20 %). README-digits.md beside the file says where it
comes from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from armtrain.data.columns import ArrayColumn
from armtrain.data.npy import parse_npy_header
from armtrain.data.source import TableSource

__all__ = ["PARTS", "load_digits", "open_digits"]

PARTS = ("train", "test", "all")
_FILE = Path(__file__).with_name("digits.npz")
_STRIDE, _TEST_PLACE = 5, 2


def load_digits(part: str = "all") -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return images, shape (n, 1, 8, 8), float32 in [0, 1] (value / 16), and labels, shape (n,).

    Parameters
    ----------
    part : {'train', 'test', 'all'}
        1,438, 359 or all 1,797 samples.
    """
    with ZipFile(_FILE) as archive:
        x, y = (_read(archive, f"{name}.npy") for name in ("x", "y"))
    chosen = np.ones(len(y), bool)
    if part != "all":
        place = np.empty(len(y), np.int64)
        for label in range(10):
            rows = np.flatnonzero(y == label)
            place[rows] = np.arange(len(rows)) % _STRIDE
        chosen = (place == _TEST_PLACE) == (part == "test")
    images = x[chosen].astype(np.float32).reshape(-1, 1, 8, 8)
    return images / np.float32(16), y[chosen].astype(np.int32)


def _read(archive: ZipFile, member: str) -> NDArray[Any]:
    """Read one array of the embedded archive."""
    data = archive.read(member)
    shape, dtype, begin = parse_npy_header(member, data)
    return np.frombuffer(data, dtype, offset=begin).reshape(shape)


def open_digits(part: str) -> TableSource:
    """Return the digits as a source."""
    x, y = load_digits(part)
    name = f"digits:{part}"
    return TableSource(name, ArrayColumn(f"{name} images", x), ArrayColumn(f"{name} labels", y))
