"""Unpacking: bounded, explained when the disk is full or the data are damaged."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from armtrain.data import unpack as module
from armtrain.data.npz import open_npz
from armtrain.data.unpack import unpack
from armtrain.errors import DataError, StorageError


class FullDisk(io.BytesIO):
    """A file on a full disk."""

    def write(self, data: object) -> int:
        raise OSError(28, "No space left on device")


def test_copies_and_stops_one_byte_after_the_limit() -> None:
    for limit, size in ((10, 5), (5, 5), (4, 5), (0, 1)):
        file, got = unpack("f", io.BytesIO(b"hello"), limit)
        with file:
            assert got == min(size, limit + 1)


def test_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.tempfile, "TemporaryFile", lambda buffering: FullDisk())
    with pytest.raises(StorageError, match=r"No space left.*set TMPDIR"):
        unpack("f", io.BytesIO(b"hello"), 10)


def test_read_error() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(StorageError, match="cannot read f: Input/output error"):
        unpack("f", Broken(), 10)


def test_damaged_member_is_found_by_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    np.savez_compressed(path, x=np.arange(4000, dtype=np.float32))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"damaged|no usable"):
        open_npz(str(path), [])


def test_encrypted_member_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    np.savez(path, x=np.arange(4, dtype=np.float32))
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        start = archive.start_dir
    data[start + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="encrypted"):
        open_npz(str(path), [])


def test_member_that_reaches_beyond_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    np.savez(path, x=np.arange(4, dtype=np.float32))
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        start = archive.start_dir
    data[start + 20 : start + 28] = (10**6).to_bytes(4, "little") * 2
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"should have 1000000 B.*damaged"):
        open_npz(str(path), [])
