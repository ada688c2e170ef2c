"""safetensors: agreement with the reference library, exact bytes, no trust in any of them."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtrain.errors import ArmtrainError, DataError, StorageError
from armtrain.io.safetensors import load_file, save_file

TENSORS = {
    "fc.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "fc.bias": np.array([1.5, -2], np.float32),
    "bn.num_batches_tracked": np.array(7, np.int64),
    "empty": np.zeros((0, 3), np.float16),
}


def raw(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    """Return a file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(**changes: object) -> dict[str, object]:
    """Return a good header entry of four bytes with changes."""
    return {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} | changes


def test_exact_bytes(tmp_path: Path) -> None:
    save_file({"b": np.array([1], np.float32), "a": np.zeros((1, 2), np.float32)}, tmp_path / "f")
    header = (
        b'{"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},'
        b'"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}'
    )
    header += b" " * (-len(header) % 8)
    want = len(header).to_bytes(8, "little") + header + bytes(8) + b"\0\0\x80\x3f"
    assert (tmp_path / "f").read_bytes() == want


def test_round_trip(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "f")
    back = load_file(tmp_path / "f")
    assert list(back) == sorted(TENSORS)
    for name, array in TENSORS.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert back[name].tobytes() == array.tobytes()


def test_library_reads_ours_and_we_read_theirs(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    save_file(TENSORS, tmp_path / "ours")
    for name, array in library.load_file(tmp_path / "ours").items():
        assert array.tobytes() == TENSORS[name].tobytes()
    library.save_file(TENSORS, tmp_path / "theirs", metadata={"format": "np"})
    for name, array in load_file(tmp_path / "theirs").items():
        assert array.tobytes() == TENSORS[name].tobytes()


def test_bf16_is_widened(tmp_path: Path) -> None:
    header = {"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}
    (tmp_path / "f").write_bytes(raw(header, b"\x80\x3f\x00\xc0"))
    assert load_file(tmp_path / "f")["w"].tolist() == [1.0, -2.0]


def test_unstorable_arrays(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="complex64"):
        save_file({"w": np.zeros(2, np.complex64)}, tmp_path / "f")
    with pytest.raises(DataError, match="__metadata__"):
        save_file({"__metadata__": np.zeros(2, np.float32)}, tmp_path / "f")
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"abc", "3 B, the header length"),
        (raw(b"{}", length=10**9), "header should have 1000000000 B"),
        (raw(b"{nonsense"), "not valid JSON"),
        (raw(b"\xff\xfe"), "not valid JSON"),
        (raw(b"[" * 5000), "not valid JSON"),
        (raw([1]), "no JSON object"),
        (raw(b'{"a":1,"a":2}'), "twice"),
        (raw({"w": {"dtype": "F32"}}), "lacks dtype"),
        (raw({"w": entry(dtype="F99")}, bytes(4)), "unknown element type 'F99'"),
        (raw({"w": entry(dtype=["F32"])}, bytes(4)), "unknown element type"),
        (raw({"w": entry(shape=[-1])}, bytes(4)), "impossible shape"),
        (raw({"w": entry(shape=[True])}, bytes(4)), "impossible shape"),
        (raw({"w": entry(shape=[2**40, 2**40])}, bytes(4)), "its offsets give 4"),
        (raw({"w": entry(data_offsets=[4, 0])}, bytes(4)), "offsets give -4"),
        (raw({"w": entry(data_offsets=[0])}, bytes(4)), "impossible offsets"),
        (raw({"w": entry(data_offsets=[4, 8])}, bytes(8)), "starts at 4, expected 0"),
        (raw({"v": entry(), "w": entry()}, bytes(4)), "starts at 0, expected 4"),
        (raw({"w": entry()}, bytes(3)), "take 4 B, the file holds 3 B"),
        (raw({"w": entry()}, bytes(5)), "take 4 B, the file holds 5 B"),
    ],
)
def test_damaged_files(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(StorageError, match=message):
        load_file(tmp_path / "f")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        load_file(tmp_path / "none")


@given(st.data())
def test_mutated_files_never_crash(data: st.DataObject) -> None:
    with tempfile.NamedTemporaryFile() as file:
        header = {"a": entry(), "b": entry(data_offsets=[4, 8])}
        base = bytearray(raw(header, bytes(8)))
        for _ in range(data.draw(st.integers(1, 6))):
            base[data.draw(st.integers(0, len(base) - 1))] = data.draw(st.integers(0, 255))
        file.write(base[: data.draw(st.integers(len(base) // 2, len(base)))])
        file.flush()
        with suppress(ArmtrainError):
            load_file(file.name)
