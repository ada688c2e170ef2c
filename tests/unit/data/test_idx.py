"""IDX files: sizes are checked, gzip is recognised by content, damage is named."""

from __future__ import annotations

import gzip
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtrain.data.idx import open_idx
from armtrain.data.spec import open_table, parse_spec
from armtrain.errors import ArmtrainError, DataError, StorageError


def idx_bytes(array: np.ndarray, code: int = 0x08) -> bytes:
    """Return an IDX file of `array`, whose type must suit `code`."""
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def read_all(path: Path) -> np.ndarray:
    """Return the whole column."""
    column = open_idx(path, [])
    out = np.empty((column.count, *column.row_shape), column.dtype)
    column.read(np.arange(column.count, dtype=np.uint64), out)
    column.close()
    return out


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("code", "dtype"),
    [(8, "u1"), (9, "i1"), (0x0B, "i2"), (0x0C, "i4"), (0x0D, "f4"), (0x0E, "f8")],
)
def test_every_type_round_trips(tmp_path: Path, packed: bool, code: int, dtype: str) -> None:
    array = np.arange(24).reshape(4, 2, 3).astype(dtype)
    data = idx_bytes(array, code)
    path = tmp_path / "plain-name"
    path.write_bytes(gzip.compress(data) if packed else data)
    assert np.array_equal(read_all(path), array)


def test_rows_in_any_order(tmp_path: Path) -> None:
    array = np.arange(60, dtype=np.uint8).reshape(10, 6)
    path = tmp_path / "f"
    path.write_bytes(idx_bytes(array))
    column = open_idx(path, [])
    rows = np.array([7, 8, 9, 0, 0, 5, 4], np.uint64)
    out = np.empty((7, 6), np.uint8)
    column.read(rows, out)
    column.close()
    assert np.array_equal(out, array[rows.astype(int)])


def test_gzip_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(gzip.compress(idx_bytes(np.zeros((2, 2), np.uint8))))
    notes: list[str] = []
    open_idx(path, notes).close()
    assert "compressed" in notes[0]
    assert "convert-data" in notes[0]


def test_header_larger_than_file_names_both_sizes(tmp_path: Path) -> None:
    path = tmp_path / "images"
    with path.open("wb") as file:
        file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 60000, 28, 28))
        file.truncate(9_912_422)
    with pytest.raises(DataError, match=r"expected 47040016 B\), got 9912422 B"):
        open_idx(path, [])


def test_one_label_short_names_both_counts(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, 100) + bytes(99))
    with pytest.raises(DataError, match=r"100 entries.*\(99 entries\)"):
        open_idx(path, [])


def test_longer_than_the_header_says_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    for data in (idx_bytes(np.zeros(5, np.uint8)) + b"x",):
        for content in (data, gzip.compress(data)):
            path.write_bytes(content)
            with pytest.raises(DataError, match="copy the file again"):
                open_idx(path, [])


def test_more_images_than_labels_names_both_counts(tmp_path: Path) -> None:
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.write_bytes(idx_bytes(np.zeros((600, 2, 2), np.uint8)))
    labels.write_bytes(idx_bytes(np.zeros(100, np.uint8)))
    with pytest.raises(DataError, match=r"600 samples.*100 targets"):
        open_table(parse_spec(f"idx:{images},{labels}"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0",
        b"PK\x03\x04aaaa",
        b"\0\0\x07\x01\0\0\0\0",
        b"\0\0\x08\x00",
        b"\0\0\x08\xff" * 9,
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(data)
    with pytest.raises(DataError, match="IDX"):
        open_idx(path, [])


def test_missing_file_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        open_idx(tmp_path / "missing", [])


@pytest.mark.parametrize("cut", [3, 12, 20, 30])
def test_cut_gzip_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(gzip.compress(idx_bytes(np.arange(200, dtype=np.uint8)))[:cut])
    with pytest.raises(DataError):
        open_idx(path, [])


def test_small_gzip_cannot_fill_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(gzip.compress(idx_bytes(np.zeros(10, np.uint8)) + bytes(50_000_000)))
    with pytest.raises(DataError, match="got 19 B"):
        open_idx(path, [])


def test_file_that_shrinks_is_an_error_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(idx_bytes(np.zeros((10, 100), np.uint8)))
    column = open_idx(path, [])
    with path.open("r+b") as file:
        file.truncate(500)
    with pytest.raises(StorageError, match="shorter"):
        column.read(np.arange(10, dtype=np.uint64), np.empty((10, 100), np.uint8))
    column.close()


@given(st.data())
def test_mutated_files_never_crash(data: st.DataObject) -> None:
    import tempfile

    base = bytearray(idx_bytes(np.arange(24, dtype=np.uint8).reshape(4, 6)))
    if data.draw(st.booleans()):
        base = bytearray(gzip.compress(bytes(base)))
    for _ in range(data.draw(st.integers(1, 4))):
        base[data.draw(st.integers(0, len(base) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.NamedTemporaryFile() as file:
        file.write(base[: data.draw(st.integers(0, len(base)))])
        file.flush()
        with suppress(ArmtrainError):
            read_all(Path(file.name))
