"""What a command writes, looked at before it starts: no input is overwritten, no result is lost.

One table names every option of every verb that is a file, so that a verb has nothing to do.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

from armtrain.atomic import check_target
from armtrain.cli.common import UsageError

__all__ = ["check_files"]


def _path(value: str) -> tuple[str, ...]:
    return (value,)


def _spec(value: str) -> tuple[str, ...]:
    from armtrain.data import parse_spec

    return parse_spec(value).paths


def _model(value: str) -> tuple[str, ...]:
    return () if value.startswith("zoo:") else (value.rpartition(":")[0] or value,)


# Destination in the parsed arguments, its name for the user, the files that its value names.
_READ = (
    ("plan", "F.plan", _path),
    ("model", "MODEL", _model),
    ("board", "--board", _path),
    ("data", "--data", _spec),
    ("validation", "--validation", _spec),
    ("weights", "--weights", _path),
    ("buffers", "BUFFERS.csv", _path),
    ("check", "--check", _path),
    ("like", "--like", _path),
)
# The third: does the whole file appear at the end, as `atomic_writer` makes it?
_WRITTEN = (
    ("output", "-o", True),
    ("svg", "--svg", True),
    ("html", "--html", True),
    ("text", "--text", True),
    ("save", "--save", True),
    ("keep_best", "--keep-best", True),
    ("log", "--log", False),
    ("checkpoint", "--checkpoint", False),
)
# Where the value has no option in front of it.
_NAMES = {("convert-data", "data"): "SPEC", ("check-data", "data"): "SPEC"}
# A training may replace the weights that it started from: both are named, one after the other.
_UPDATES = {("--weights", "--save")}


def check_files(args: argparse.Namespace) -> None:
    """Refuse outputs that would overwrite another file of the command, or cannot be written.

    Raises
    ------
    UsageError
        An output is the file of another option, also through links, or a path holds a NUL.
    StorageError
        An output's directory is missing or not writable, or the output is no regular file.
    """
    values: dict[str, Any] = vars(args)
    for value in values.values():
        if isinstance(value, str) and "\0" in value:
            raise UsageError(f"{value!r} holds a NUL character, which no file name has")
    seen = list(_inputs(values))
    for key, name, _ in _WRITTEN:
        path = values.get(key)
        if not path:
            continue
        identity = _identity(path)
        for other, other_path, other_identity in seen:
            if identity == other_identity and (other, name) not in _UPDATES:
                raise UsageError(
                    f"{name} would overwrite the file of {other} ({path} and {other_path} are one "
                    "file): name another one"
                )
        seen.append((name, path, identity))
    for key, _, whole in _WRITTEN:
        if whole and values.get(key) is not None:
            check_target(values[key])


def _inputs(values: dict[str, Any]) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Yield the name, path and identity of every file that a command reads."""
    for key, name, paths_of in _READ:
        value = values.get(key)
        for path in paths_of(value) if isinstance(value, str) else ():
            yield _NAMES.get((values["verb"], key), name), path, _identity(path)


def _identity(path: str) -> tuple[Any, ...]:
    """Return what two names of one file share, links followed; the file may not exist yet."""
    try:
        found = os.stat(path)
        return found.st_dev, found.st_ino
    except OSError:
        pass
    try:
        real = os.path.realpath(path)
    except OSError:  # there is no current directory, and nothing in it
        return (path,)
    try:
        parent = os.stat(os.path.dirname(real))
        return parent.st_dev, parent.st_ino, os.path.basename(real)
    except OSError:
        return (real,)
