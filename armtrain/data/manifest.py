"""Manifests: what `armtrain check-data` found, in a file that trainings trust.

A manifest names every file of the data with its size, time and CRC-32, the samples that are good,
class names and preparation. Data that are opened through it are not decoded and checked again;
a file that changed since is refused. Paths are relative to the manifest's folder unless they were
given absolute, so that folder and manifest move together.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from armtrain.atomic import write_bytes
from armtrain.data.about import About
from armtrain.errors import DataError
from armtrain.files import open_regular, read_regular

__all__ = ["Manifest", "Stamp", "read_manifest", "stamp_files"]

_VERSION = 1
_CHUNK = 1 << 18
_KINDS = ("digits", "npz", "idx", "csv", "folder", "wav")


@dataclass(frozen=True)
class Stamp:
    """One file: path, size, time of its last change, checksum, and its class (-1 without one)."""

    path: str
    bytes: int
    mtime_ns: int
    crc32: int
    label: int = -1


@dataclass(frozen=True)
class Manifest:
    """What was found in data.

    Attributes
    ----------
    kind, paths, options, part
        The SPEC, its paths as they are to be opened.
    samples : int
        Good ones.
    bad : int
        Samples left out.
    labels : tuple of int
        Smallest and largest label; empty without labels.
    facts : mapping
        More of what the SPEC's kind needs to open the files unseen.
    about : About or None
    files : tuple of Stamp
    """

    kind: str
    paths: tuple[str, ...]
    options: str
    part: str
    samples: int
    bad: int
    labels: tuple[int, ...]
    about: About | None
    files: tuple[Stamp, ...]
    facts: dict[str, Any] = field(default_factory=dict)

    def save(self, path: str) -> None:
        """Write the manifest, crash-safe; raises StorageError."""
        base = os.path.dirname(os.path.realpath(path))
        value = {
            "armtrain_manifest": _VERSION,
            "kind": self.kind,
            "paths": [_relative(p, base) for p in self.paths],
            "options": self.options,
            "part": self.part,
            "samples": self.samples,
            "bad": self.bad,
            "labels": list(self.labels),
            "facts": self.facts,
            "about": self.about.to_metadata() if self.about else None,
            "files": [
                [_relative(f.path, base), f.bytes, f.mtime_ns, f.crc32, f.label] for f in self.files
            ],
        }
        write_bytes(path, (json.dumps(value, indent=0) + "\n").encode())

    def check_files(self, name: str) -> None:
        """Refuse files that changed since; a new time alone is answered by the checksum.

        Raises
        ------
        DataError
            A file has another size or content.
        StorageError
            A file is missing or cannot be read.
        """
        for stamp in self.files:
            with open_regular(stamp.path, f"a file of {name}, ") as file:
                found = os.fstat(file.fileno())
            same = found.st_size == stamp.bytes
            if same and found.st_mtime_ns != stamp.mtime_ns:
                same = _crc(stamp.path) == stamp.crc32
            if not same:
                raise DataError(
                    f"{stamp.path} changed since {name} was written ({stamp.bytes} B then, "
                    f"{found.st_size} B now): run armtrain check-data again"
                )


def stamp_files(paths: Iterable[str], labels: Iterable[int]) -> tuple[Stamp, ...]:
    """Return size, time and checksum of files, which are read once; raises StorageError."""
    stamps = []
    for path, label in zip(paths, labels, strict=True):
        found = os.stat(path)
        stamps.append(Stamp(path, found.st_size, found.st_mtime_ns, _crc(path), label))
    return tuple(stamps)


def _crc(path: str) -> int:
    """Return a file's CRC-32."""
    crc = 0
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc


def _relative(path: str, base: str) -> str:
    return path if os.path.isabs(path) else os.path.relpath(os.path.realpath(path), base)


def read_manifest(path: str) -> Manifest:
    """Read a manifest; its files are not looked at yet.

    Raises
    ------
    DataError
        It is none that `armtrain check-data` writes.
    StorageError
        It cannot be read.
    """
    content = read_regular(path, "the manifest ")
    base = os.path.dirname(os.path.realpath(path) if os.path.islink(path) else path)
    try:
        value = json.loads(content)
        if value["armtrain_manifest"] != _VERSION:
            raise ValueError(f"version {value['armtrain_manifest']}, {_VERSION} is known")
        files = tuple(_stamp(base, fields) for fields in value["files"])
        about = None if value["about"] is None else dict(value["about"])
        manifest = Manifest(
            kind=value["kind"],
            paths=tuple(os.path.join(base, str(p)) for p in value["paths"]),
            options=str(value["options"]),
            part=str(value["part"]),
            samples=_whole(value["samples"]),
            bad=_whole(value["bad"]),
            labels=tuple(map(_whole, value["labels"])),
            about=None if about is None else About.from_metadata(path, about),
            files=files,
            facts=dict(value["facts"]),
        )
        if manifest.kind not in _KINDS:
            raise ValueError(f"unknown kind {manifest.kind!r:.40}")
        return manifest
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        raise DataError(
            f"{path} is no manifest of armtrain check-data ({type(error).__name__}: {error}); "
            "write it again with -o"
        ) from error


def _stamp(base: str, fields: Any) -> Stamp:
    """Return one file of a manifest."""
    path, *numbers = fields
    size, mtime, crc, label = map(_whole, numbers)
    return Stamp(os.path.join(base, str(path)), size, mtime, crc, label)


def _whole(value: Any) -> int:
    """Return an integer; raises TypeError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r:.40} is no whole number")
    return value
