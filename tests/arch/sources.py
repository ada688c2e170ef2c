"""What the architecture tests read: the tree's files and the imports of its modules."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOP = ("armtrain", "kernels", "boards", "scripts", "tests", "docs", ".ci")
SKIPPED = {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}


def is_built(path: Path) -> bool:
    """Return whether a file is made by a build or a tool."""
    translated = path.parent.name == "cython" and path.suffix == ".c"
    return translated or path.suffix in (".so", ".pyc") or bool(SKIPPED & set(path.parts))


@cache
def files() -> tuple[Path, ...]:
    """Return all source files relative to the root: what git would keep, else what lies there."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout:
        listed = (Path(line) for line in done.stdout.splitlines())
    else:
        found = (p for top in TOP for p in (ROOT / top).rglob("*"))
        listed = (p.relative_to(ROOT) for p in found if not is_built(p))
    return tuple(sorted({p for p in listed if (ROOT / p).is_file()}))


def under(folder: str, *suffixes: str) -> list[Path]:
    """Return the files below `folder` with one of `suffixes`."""
    return [p for p in files() if p.parts[0] == folder and p.suffix in suffixes]


def python_files() -> list[Path]:
    """Return all Python files but setup.py."""
    return [p for top in ("armtrain", "scripts", "boards", "tests") for p in under(top, ".py")]


def text(path: Path) -> str:
    """Return the text of a file."""
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return ast.parse(text(path))


def imports(path: Path) -> list[tuple[str, int, bool]]:
    """Return (absolute module name, line, at module level) of every import of a Python file.

    `from a import b` gives 'a.b', since b may be a module.
    """
    found = []
    top_level = set(map(id, tree(path).body))
    for node in ast.walk(tree(path)):
        level = id(node) in top_level
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno, level) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            found += [(f"{base}.{alias.name}", node.lineno, level) for alias in node.names]
    return found


def strip_c(source: str) -> str:
    """Return C source with comments and literals blanked, line numbers kept."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, blank, source, flags=re.DOTALL)


def c_functions(source: str) -> list[tuple[str, int, int]]:
    """Return (first line's text, line number, lines) of every function body in C source."""
    found = []
    depth, start, header = 0, 0, 0
    lines = strip_c(source).split("\n")
    for number, line in enumerate(lines, 1):
        if depth == 0:
            if line[:1].strip() and line[0] not in "#}":
                header = number
            if re.search(r"\)\s*\{", line) and not re.match(r"(typedef|struct|enum|union)\b", line):
                start = header
        depth += line.count("{") - line.count("}")
        if depth == 0 and start and "}" in line:
            found.append((lines[start - 1].strip(), start, number - start + 1))
            start = 0
    return found
