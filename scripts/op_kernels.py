"""Which operations work in kernels: what their C functions call, directly or through others."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

__all__ = ["kernels_of"]

_FAMILIES = {"gemm": "product", "vec": "vector"}
_TEXTS = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
_NAME = re.compile(r"[A-Za-z_]\w*")
_FAMILY = re.compile(r"kernels\s*\.\s*(\w+)")
_HEADER = re.compile(r"([A-Za-z_]\w*)\s*(?:\([^;=]*\)\s*$|(?:\[[^\]]*\]\s*)*=\s*$)", re.DOTALL)
"""What comes before a brace: a function's name and parameters, or a table's name."""


def _bodies(text: str) -> dict[str, str]:
    """Return the text in braces of every function and table of a preprocessed file."""
    text = _TEXTS.sub('""', text)
    bodies: dict[str, str] = {}
    depth, start, header = 0, 0, ""
    for brace in re.finditer(r"[{}]", text):
        if brace[0] == "{":
            if not depth:
                header, start = text[start : brace.start()], brace.end()
            depth += 1
        else:
            depth -= 1
            if not depth:
                name = _HEADER.search(header.rpartition(";")[2])
                if name:
                    bodies[name[1]] = text[start : brace.start()]
                start = brace.end()
    return bodies


def kernels_of(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the families of kernels of every operation, by its name in lower case.

    Parameters
    ----------
    folder : Path
        `kernels/`.
    """
    files: list[dict[str, str]] = []
    compiler = shlex.split(os.environ.get("CC", "cc"))
    for path in sorted((folder / "ops").glob("*.c")):
        command = [*compiler, "-E", "-P", f"-I{folder}", f"-I{folder}/include"]
        done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=True)
        files.append(_bodies(done.stdout))
    shared = {name: file for file in files for name in file if name.startswith("art_")}

    def families(name: str, file: dict[str, str], seen: set[tuple[int, str]]) -> set[str]:
        """Return the families that a function reaches; a file's own functions go first."""
        file = file if name in file else shared.get(name, {})
        if name not in file or (id(file), name) in seen:
            return set()
        seen.add((id(file), name))
        found = {_FAMILIES[word] for word in _FAMILY.findall(file[name])}
        for called in set(_NAME.findall(file[name])):
            found |= families(called, file, seen)
        return found

    runs = re.compile(r"art_op_(\w+)_run")
    return {
        match[1]: tuple(sorted(families(name, file, set())))
        for file in files
        for name in file
        if (match := runs.fullmatch(name))
    }
