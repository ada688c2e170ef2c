"""Folders of samples: one subfolder a class, one file a sample.

Classes are the subfolders in the order of their names (by code point), samples the files below
them in the order of their paths, so that the same folder gives the same numbers everywhere.
Hidden files and folders, '__MACOSX' and files of other kinds are passed over and listed. A
folder without subfolders is a list of samples without classes, for predictions.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from armtrain.data.about import is_text
from armtrain.data.findings import Findings, Opening
from armtrain.errors import DataError, StorageError
from armtrain.files import explain

__all__ = ["Listing", "list_folder"]

_HIDDEN = ("__MACOSX",)


@dataclass(frozen=True)
class Listing:
    """Files in order, the class of each (-1 without one), and the names of the classes."""

    paths: tuple[str, ...]
    labels: tuple[int, ...]
    classes: tuple[str, ...]

    def only(self, good: Sequence[int]) -> Listing:
        """Return the files at some places."""
        paths = tuple(self.paths[i] for i in good)
        return Listing(paths, tuple(self.labels[i] for i in good), self.classes)

    @property
    def has_labels(self) -> bool:
        """Tell whether the files have classes."""
        return bool(self.labels) and min(self.labels) >= 0


def list_folder(root: str, suffixes: tuple[str, ...], opening: Opening, kind: str) -> Listing:
    """List the samples below a folder.

    Parameters
    ----------
    root : str
    suffixes : tuple of str
        Of sample files, in lower case.
    opening : Opening
    kind : str
        Of the SPEC, to find the classes that weights know.

    Raises
    ------
    DataError
        There are no classes though targets are needed, a class that the weights do not know, or
        no files.
    StorageError
        A folder cannot be read.
    """
    findings, like = opening.findings, opening.like_kind(kind)
    folders, files = _entries(root, suffixes, findings)
    known = like.classes if like is not None else ()
    if not opening.targets:
        paths = [*files, *(p for name in folders for p in _below(root, name, suffixes, findings))]
        if not paths:
            raise _empty(root, suffixes)
        return Listing(tuple(paths), (-1,) * len(paths), known)
    for path in files:
        findings.skip(f"{os.path.basename(path)} (in no class's folder)")
    if not folders:
        raise DataError(
            f"{root} has no subfolders: each class needs one, which holds its files "
            f"({', '.join(suffixes)})"
        )
    strange = [name for name in folders if not is_text(name)]
    if strange:
        raise DataError(
            f"{root}: the folder {os.fsencode(strange[0])!r} has a name that is no UTF-8 text, and "
            "no name of a class: rename it"
        )
    classes = known or tuple(folders)
    unknown = [name for name in folders if name not in classes]
    if unknown:
        raise DataError(
            f"{root} has folders that are no classes of the training: {', '.join(unknown[:8])}; "
            f"it has {', '.join(classes[:20])}: rename or remove them"
        )
    return _labelled(root, classes, set(folders), suffixes, findings)


def _labelled(
    root: str, classes: tuple[str, ...], there: set[str], suffixes: tuple[str, ...], found: Findings
) -> Listing:
    """List the files of every class; one without files keeps its number."""
    paths: list[str] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        files = _below(root, name, suffixes, found) if name in there else []
        if not files:
            found.notes.append(f"{root}: class {name} (number {number}) has no files")
        paths += files
        labels += [number] * len(files)
    if not paths:
        raise _empty(root, suffixes)
    return Listing(tuple(paths), tuple(labels), classes)


def _empty(root: str, suffixes: tuple[str, ...]) -> DataError:
    return DataError(f"{root} holds no files that end in {', '.join(suffixes)}")


def _entries(
    folder: str, suffixes: tuple[str, ...], findings: Findings
) -> tuple[list[str], list[str]]:
    """Return the names of subfolders and the paths of sample files of a folder, in order."""
    folders, files = [], []
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise StorageError(f"cannot read the folder {folder}: {explain(error)}") from error
    for entry in entries:
        if entry.name.startswith(".") or entry.name in _HIDDEN:
            findings.skip(f"{entry.name} (hidden)")
        elif entry.is_dir():
            folders.append(entry.name)
        elif os.path.splitext(entry.name)[1].lower() in suffixes:
            files.append(entry.path)
        else:
            findings.skip(f"{entry.name} (another kind of file)")
    return folders, files


def _below(root: str, name: str, suffixes: tuple[str, ...], findings: Findings) -> list[str]:
    """Return the sample files below a subfolder; links to folders above it end the descent."""
    result: list[str] = []
    seen: set[tuple[int, int]] = set()
    pending = [os.path.join(root, name)]
    while pending:
        folder = pending.pop()
        identity = os.stat(folder)
        if (identity.st_dev, identity.st_ino) in seen:
            continue
        seen.add((identity.st_dev, identity.st_ino))
        folders, files = _entries(folder, suffixes, findings)
        result += files
        pending += [os.path.join(folder, inner) for inner in folders]
    return sorted(result)
