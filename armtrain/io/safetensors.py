"""Reading and writing safetensors files, without trusting a byte of them.

File: 8-byte little-endian header length, a JSON header, then the raw tensors. This writer puts
names in sorted order, no spaces, pads the header with spaces to a multiple
of 8 and stores the data in header order, so that equal tensors give equal files; the C engine
writes the same bytes.

References
----------
.. [1] https://github.com/huggingface/safetensors (format description)
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from armtrain.atomic import atomic_writer
from armtrain.errors import ArgumentError, DataError, StorageError
from armtrain.files import explain, open_regular

__all__ = ["load_file", "read_metadata", "save_file"]

MAX_HEADER_BYTES = 100_000_000

_DTYPES: dict[str, str] = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "BF16": "<u2",  # widened to float32 after reading
}
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items() if name != "BF16"}


@dataclass(frozen=True)
class _Entry:
    """One checked header entry: bytes [begin, end) after the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def save_file(tensors: Mapping[str, NDArray[Any]], path: str | os.PathLike[str]) -> None:
    """Write named arrays as a safetensors file, crash-safe and reproducible.

    Parameters
    ----------
    tensors : mapping of str to ndarray
        Arrays of any shape; bool, integer or float types of 1 to 8 bytes.
    path : path-like

    Raises
    ------
    ArgumentError
        The tensors are no mapping of text to arrays, or the path is none.
    DataError
        An array has an element type that the format lacks, or a reserved name.
    StorageError
        Writing failed; an existing file is unchanged.
    """
    _check_names(tensors)
    arrays = {name: np.asarray(tensors[name]) for name in sorted(tensors)}
    header: dict[str, object] = {}
    end = 0
    for name, array in arrays.items():
        code = _NAMES.get(array.dtype.newbyteorder("<"))
        if code is None or name == "__metadata__":
            raise DataError(
                f"tensor '{name}' ({array.dtype}) cannot be stored as safetensors; "
                "use another name, or bool, integer or float elements"
            )
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with atomic_writer(path) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for array in arrays.values():
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            file.write(little.reshape(-1).view(np.uint8).data)


def _check_names(tensors: object) -> None:
    """Refuse what is no mapping, and names that UTF-8 cannot hold."""
    if not isinstance(tensors, Mapping):
        raise ArgumentError(
            f"tensors is a mapping of names to arrays, got {type(tensors).__name__}; the path "
            "comes second"
        )
    for name in tensors:
        try:
            str.encode(name)
        except (TypeError, UnicodeEncodeError) as error:
            raise ArgumentError(
                f"the name of a tensor is text, without lone surrogates, got {name!r:.80}"
            ) from error


def load_file(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read the safetensors file `path` into new arrays, names in file order.

    Returns
    -------
    dict of str to ndarray
        BF16 tensors are widened to float32, all others keep their type.

    Raises
    ------
    StorageError
        The file cannot be read, or its bytes are not a whole safetensors file.
    """
    try:
        with open_regular(path, buffered=True) as file:
            size = os.fstat(file.fileno()).st_size
            entries, start = _read_header(file, size, os.fspath(path))
            return {entry.name: _read_tensor(file, entry, start) for entry in entries}
    except OSError as error:
        raise StorageError(f"cannot read {os.fspath(path)}: {explain(error)}") from error


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the texts of a file's `__metadata__`, by name; raises StorageError as `load_file`."""
    try:
        with open_regular(path, buffered=True) as file:
            size = os.fstat(file.fileno()).st_size
            header, _ = _read_json(file, size, os.fspath(path))
    except OSError as error:
        raise StorageError(f"cannot read {os.fspath(path)}: {explain(error)}") from error
    metadata = header.get("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _bad(os.fspath(path), "its metadata are no texts")
    return metadata


def _bad(path: str, why: str) -> StorageError:
    """Return the refusal of a damaged file."""
    return StorageError(f"{path} is not a usable safetensors file: {why}; copy or save it again")


def _read_json(file: BinaryIO, size: int, path: str) -> tuple[dict[str, Any], int]:
    """Return the header's object, unchecked, and its length."""
    if size < 8:
        raise _bad(path, f"it has {size} B, the header length alone takes 8 B")
    length = int.from_bytes(file.read(8), "little")
    if length > min(size - 8, MAX_HEADER_BYTES):
        raise _bad(path, f"its header should have {length} B, the file has {size} B")
    try:
        header = json.loads(file.read(length), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _bad(path, f"its header is not valid JSON ({error})") from error
    if not isinstance(header, dict):
        raise _bad(path, "its header is no JSON object")
    return header, length


def _read_header(file: BinaryIO, size: int, path: str) -> tuple[list[_Entry], int]:
    """Return the checked entries and the file offset of the first tensor byte."""
    header, length = _read_json(file, size, path)
    header.pop("__metadata__", None)
    entries = [_entry(path, name, fields) for name, fields in header.items()]
    position = 0
    for entry in sorted(entries, key=lambda e: (e.begin, e.end)):
        if entry.begin != position:
            raise _bad(path, f"'{entry.name}' starts at {entry.begin}, expected {position}")
        position = entry.end
    if position != size - 8 - length:
        raise _bad(path, f"tensors take {position} B, the file holds {size - 8 - length} B of them")
    return entries, 8 + length


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object and refuse repeated keys."""
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name occurs twice")
    return result


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _entry(path: str, name: str, fields: object) -> _Entry:
    """Check one header entry and return it."""
    if not isinstance(fields, dict) or set(fields) != {"dtype", "shape", "data_offsets"}:
        raise _bad(path, f"the entry of '{name}' lacks dtype, shape or data_offsets")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise _bad(path, f"'{name}' has the unknown element type {dtype!r}")
    if not isinstance(shape, list) or len(shape) > 32 or not all(map(_is_size, shape)):
        raise _bad(path, f"'{name}' has the impossible shape {shape!r}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise _bad(path, f"'{name}' has impossible offsets {offsets!r}")
    begin, end = offsets
    need = prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
    if end - begin != need:
        raise _bad(
            path, f"'{name}' of shape {shape} needs {need} B, its offsets give {end - begin}"
        )
    return _Entry(name, dtype, tuple(shape), begin, end)


def _read_tensor(file: BinaryIO, entry: _Entry, start: int) -> NDArray[Any]:
    """Read one tensor whose place in the file has been checked."""
    array: NDArray[Any] = np.empty(entry.shape, _DTYPES[entry.dtype])
    file.seek(start + entry.begin)
    view = array.reshape(-1).view(np.uint8).data
    if len(view) and file.readinto(view) != len(view):  # type: ignore[attr-defined]
        raise StorageError(f"the file became shorter while '{entry.name}' was read")
    if entry.dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(array.dtype.newbyteorder("="), copy=False)
