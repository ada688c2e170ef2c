"""npz files: stored members are streamed, compressed ones unpacked, everything else refused."""

from __future__ import annotations

import io
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtrain.data.npy import NpzWriter
from armtrain.data.npz import open_npz, read_about
from armtrain.errors import ArmtrainError, DataError, StorageError


def whole(column) -> np.ndarray:
    """Read and close a column."""
    out = np.empty((column.count, *column.row_shape), column.dtype)
    column.read(np.arange(column.count, dtype=np.uint64), out)
    column.close()
    return out


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", ">f4", "f2"])
def test_round_trip(tmp_path: Path, save, dtype: str) -> None:
    x = np.arange(48).reshape(8, 2, 3).astype(dtype)
    y = np.arange(8)
    save(tmp_path / "f.npz", x=x, y=y)
    notes: list[str] = []
    got_x, got_y = open_npz(str(tmp_path / "f.npz"), notes)
    assert np.array_equal(whole(got_x), x)
    assert np.array_equal(whole(got_y), y)
    assert len(notes) == (0 if save is np.savez else 2)


def test_writer_is_read_by_numpy_and_by_us(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.arange(4, dtype=np.int32)
    for _ in range(2):
        with path.open("wb") as file, NpzWriter(file) as writer:
            writer.add("x", x.shape, x.dtype, [x[:3], x[3:]])
            writer.add("y", y.shape, y.dtype, [y])
        first = path.read_bytes()
    assert path.read_bytes() == first
    with np.load(path) as back:
        assert np.array_equal(back["x"], x)
        assert np.array_equal(back["y"], y)
    got_x, got_y = open_npz(str(path), [])
    assert np.array_equal(whole(got_x), x)
    assert np.array_equal(whole(got_y), y)


def test_missing_targets_are_allowed_here(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", x=np.zeros((3, 2), np.float32))
    x, y = open_npz(str(tmp_path / "f.npz"), [])
    x.close()
    assert y is None


def test_other_names_are_listed(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", images=np.zeros(3), labels=np.zeros(3))
    with pytest.raises(DataError, match="holds images, labels; arrays named x and y"):
        open_npz(str(tmp_path / "f.npz"), [])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([None, 1], object), "type object"),
        (np.asfortranarray(np.zeros((3, 4))), "Fortran"),
        (np.array(3.0), "array of samples"),
        (np.array(["a"]), "type <U1"),
        (np.zeros(2, [("a", "f4")]), "type"),
    ],
)
def test_unusable_arrays(tmp_path: Path, array: np.ndarray, message: str) -> None:
    np.savez(tmp_path / "f.npz", x=array)
    with pytest.raises(DataError, match=message):
        open_npz(str(tmp_path / "f.npz"), [])


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        open_npz(str(tmp_path / "none.npz"), [])
    (tmp_path / "f.npz").write_bytes(b"not a zip file")
    with pytest.raises(DataError, match="no usable npz"):
        open_npz(str(tmp_path / "f.npz"), [])


def test_every_version_of_the_npy_format(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    for version in ((1, 0), (2, 0), (3, 0)):
        stream = io.BytesIO()
        np.lib.format.write_array(stream, x, version)
        with zipfile.ZipFile(tmp_path / "f.npz", "w") as archive:
            archive.writestr("x.npy", stream.getvalue())
        column, _ = open_npz(str(tmp_path / "f.npz"), [])
        assert np.array_equal(whole(column), x)


@pytest.mark.parametrize("member", ["x", "y"])
def test_a_flipped_bit_of_a_stored_member_is_refused(tmp_path: Path, member: str) -> None:
    path = tmp_path / "f.npz"
    arrays = {"x": np.full((300_000, 1), 0.25, np.float32), "y": np.full(300_000, 77, np.uint8)}
    np.savez(path, **arrays)
    data = bytearray(path.read_bytes())
    want = zipfile.ZipFile(path).getinfo(f"{member}.npy").CRC
    last = bytes(data).rfind(arrays[member].tobytes()[-4:])
    data[last] ^= 16
    path.write_bytes(data)
    with pytest.raises(
        DataError, match=rf"f\.npz:{member} is damaged: .*the archive says {want:08x}"
    ):
        open_npz(str(path), [])


def test_header_that_lies_about_the_size(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.save(stream, np.zeros((4, 4), np.float32))
    data = stream.getvalue().replace(b"(4, 4)", b"(9, 9)")
    with zipfile.ZipFile(tmp_path / "f.npz", "w") as archive:
        archive.writestr("x.npy", data)
    with pytest.raises(DataError, match="needs 324 B, the file holds 64 B"):
        open_npz(str(tmp_path / "f.npz"), [])


@given(st.data())
def test_mutated_files_never_crash(data: st.DataObject) -> None:
    stream = io.BytesIO()
    save = np.savez_compressed if data.draw(st.booleans()) else np.savez
    save(stream, x=np.arange(12, dtype=np.float32).reshape(4, 3), y=np.arange(4))
    base = bytearray(stream.getvalue())
    for _ in range(data.draw(st.integers(1, 5))):
        base[data.draw(st.integers(0, len(base) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.NamedTemporaryFile() as file:
        file.write(base[: data.draw(st.integers(len(base) // 2, len(base)))])
        file.flush()
        with suppress(ArmtrainError):
            for column in open_npz(file.name, []):
                if column is not None:
                    whole(column)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1 to 1048576"),
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"armtrain.classes":"[]"}', "damaged"),
        ('{"armtrain.classes":"[]","armtrain.preparation":"[]"}', "damaged"),
        ('{"armtrain.classes":"[1]","armtrain.preparation":"{\\"kind\\":\\"csv\\"}"}', "damaged"),
        ('{"armtrain.classes":"[\\"a\\",\\"a\\"]","armtrain.preparation":"{}"}', "damaged"),
    ],
)
def test_damaged_names_of_classes_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("about.json", text)
    with pytest.raises(DataError, match=message):
        read_about(str(path))


def test_other_archives_have_no_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros(2))
    assert read_about(str(tmp_path / "a.npz")) is None
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("about.json", '{"other": "text"}')
    assert read_about(str(tmp_path / "b.npz")) is None
    (tmp_path / "c.npz").write_bytes(b"PK")
    with pytest.raises(DataError, match="damaged"):
        read_about(str(tmp_path / "c.npz"))
