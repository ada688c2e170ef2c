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

from armtrain.data.columns import ArrayColumn, Rows
from armtrain.data.npy import parse_npy_header
from armtrain.data.source import TableSource

__all__ = ["PARTS", "load_digits", "open_digits"]

PARTS = ("train", "test", "all")
_FILE = Path(__file__).with_name("digits.npz")
_STRIDE, _TEST_PLACE = 5, 2
_LARGEST = np.float32(16)


def load_digits(part: str = "all") -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return images, shape (n, 1, 8, 8), float32 in [0, 1] (value / 16), and labels, shape (n,).

    Parameters
    ----------
    part : {'train', 'test', 'all'}
        1,438, 359 or all 1,797 samples.
    """
    x, y = _load(part)
    return np.divide(x, _LARGEST, dtype=np.float32), y.astype(np.int32)


def _load(part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return images, shape (n, 1, 8, 8), values 0 to 16, and labels."""
    with ZipFile(_FILE) as archive:
        x, y = (_read(archive, f"{name}.npy") for name in ("x", "y"))
    x = x.reshape(-1, 1, 8, 8)
    if part == "all":
        return x, y
    place = np.empty(len(y), np.int64)
    for label in range(10):
        rows = np.flatnonzero(y == label)
        place[rows] = np.arange(len(rows)) % _STRIDE
    chosen = (place == _TEST_PLACE) == (part == "test")
    return x[chosen], y[chosen]


def _read(archive: ZipFile, member: str) -> NDArray[Any]:
    """Read one array of the embedded archive."""
    data = archive.read(member)
    shape, dtype, begin = parse_npy_header(member, data)
    return np.frombuffer(data, dtype, offset=begin).reshape(shape)


class _ScaledImages:
    """Images kept as bytes, a quarter of their size, and scaled when they are read."""

    def __init__(self, name: str, images: NDArray[np.uint8]) -> None:
        self.name = name
        self.count = len(images)
        self.row_shape = images.shape[1:]
        self.dtype: np.dtype[Any] = np.dtype(np.float32)
        self._images = images

    def read(self, rows: Rows, out: NDArray[Any]) -> None:
        """Write value / 16 of the images `rows`."""
        np.divide(self._images[rows.astype(np.intp)], _LARGEST, out=out, dtype=np.float32)

    def close(self) -> None:
        """Do nothing: there is no file."""


def open_digits(part: str) -> TableSource:
    """Return the digits as a source."""
    x, y = _load(part)
    name = f"digits:{part}"
    return TableSource(name, _ScaledImages(f"{name} images", x), ArrayColumn(f"{name} labels", y))
