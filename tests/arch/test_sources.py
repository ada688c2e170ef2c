"""Caps on size, no stray files, no unfinished work, generated files up to date."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.arch import sources

PYTHON_FILE, PYTHON_FUNCTION = 400, 50
C_FILE, C_FUNCTION = 600, 50
FACADE_NAMES = 25
LARGEST_FILE_BYTES = 200_000

ROOT_FILES = {
    ".clang-format",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "MANIFEST.in",
    "Makefile",
    "README.md",
    "pyproject.toml",
    "setup.py",
}
# Folder -> suffixes of the files that belong there.
SUFFIXES = {
    ".ci": {""},
    "armtrain": {".py", ".pyi", ".typed", ".npz", ".gz", ".bin", ".txt", ".md", ".csv"},
    "boards": {".py", ".toml", ".md"},
    "docs": {".md", ".svg"},
    "kernels": {".c", ".h", ".def", ".inc", ".mk", ".pyx", ".pxd", ".pxi"},
    "scripts": {".py", ".sh", ".mk"},
    "tests": {".py", ".c", ".h", ".txt", ".json", ".npz", ".csv", ".md", ".plan", ".exp", ".toml"},
    # Machines in files: Linux names them.
    "tests/boards": {"", ".current", ".max", ".md", ".stat", ".toml", ".txt"},
}
# Names that say nothing, or that something should have been deleted.
BANNED_NAMES = re.compile(r"(^|_)(utils?|helpers?|misc|old|new|tmp|v\d|optimized|backup)(_|\.|$)")
# Assembled, so that this file does not contain what it looks for.
BANNED_WORDS = [
    "TO" + "DO",
    "FIX" + "ME",
    r"\bXX" + r"X\b",
    "/wo" + "rk/",
    "/tmp/" + "tv",
    "CONTRACT" + r"\.md",
    "py" + r"pi\.org",
    "python" + "hosted",
    r"\b[Ii]ssue" + r" #?\d",
]


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return all functions of a Python file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [n for n in ast.walk(sources.tree(path)) if isinstance(n, kinds)]


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without its docstring."""
    first, end = node.body[0], node.end_lineno or node.lineno
    documented = ast.get_docstring(node) is not None
    text = (first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0
    return end - node.lineno + 1 - text


def test_python_sizes() -> None:
    wrong = []
    for path in sources.python_files():
        lines = sources.text(path).count("\n")
        if lines > PYTHON_FILE:
            wrong.append(f"{path}: {lines} lines, at most {PYTHON_FILE}")
        for node in functions(path):
            length = code_lines(node)
            if length > PYTHON_FUNCTION:
                wrong.append(f"{path}:{node.lineno}: {node.name} has {length} lines")
    for path in sources.under("kernels", ".pyx", ".pxd", ".pxi"):
        lines = sources.text(path).count("\n")
        if lines > PYTHON_FILE:
            wrong.append(f"{path}: {lines} lines, at most {PYTHON_FILE}")
    assert not wrong, "\n".join(wrong)


def test_c_sizes() -> None:
    wrong = []
    paths = sources.under("kernels", ".c", ".h", ".inc") + sources.under("tests", ".c", ".h")
    for path in paths:
        lines = sources.text(path).count("\n")
        if lines > C_FILE:
            wrong.append(f"{path}: {lines} lines, at most {C_FILE}")
        for header, number, length in sources.c_functions(sources.text(path)):
            if length > C_FUNCTION:
                wrong.append(f"{path}:{number}: {length} lines: {header}")
    assert not wrong, "\n".join(wrong)


def test_no_stray_files() -> None:
    wrong = []
    for path in sources.files():
        if len(path.parts) == 1:
            if path.name not in ROOT_FILES:
                wrong.append(f"{path}: not a file of the root folder")
            continue
        folder = "/".join(path.parts[:2])
        if path.suffix not in SUFFIXES.get(folder, SUFFIXES.get(path.parts[0], set())):
            wrong.append(f"{path}: '{path.suffix}' files do not belong into {path.parts[0]}/")
        if BANNED_NAMES.search(path.name):
            wrong.append(f"{path}: the name says nothing")
        if (sources.ROOT / path).stat().st_size > LARGEST_FILE_BYTES:
            wrong.append(f"{path}: larger than {LARGEST_FILE_BYTES} bytes")
    assert not wrong, "\n".join(wrong)


def test_no_unfinished_work_and_no_foreign_paths() -> None:
    pattern = re.compile("|".join(BANNED_WORDS))
    wrong = []
    for path in sources.files():
        try:
            text = sources.text(path)
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if pattern.search(line):
                wrong.append(f"{path}:{number}: {line.strip()[:100]}")
    assert not wrong, "\n".join(wrong)


def test_skips_say_why() -> None:
    for path in sources.under("tests", ".py"):
        for node in ast.walk(sources.tree(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr == "skip":
                    assert node.args or node.keywords, f"{path}:{node.lineno}: no reason"
                if node.func.attr in ("skipif", "xfail"):
                    reasons = {k.arg for k in node.keywords}
                    assert "reason" in reasons, f"{path}:{node.lineno}: no reason"


def exported(path: Path) -> list[str]:
    """Return the names in `__all__` of a Python file."""
    for node in sources.tree(path).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
        ):
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def test_facade_is_small() -> None:
    facade = Path("armtrain/__init__.py")
    assert facade in sources.files(), "armtrain/__init__.py is missing"
    assert 0 < len(exported(facade)) <= FACADE_NAMES


def test_public_names_have_docstrings() -> None:
    wrong = []
    for path in sources.under("armtrain", ".py"):
        names = exported(path)
        assert names == sorted(set(names), key=names.index), f"{path}: a name twice in __all__"
        if not ast.get_docstring(sources.tree(path)):
            wrong.append(f"{path}: no module docstring")
        for node in sources.tree(path).body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name not in names:
                continue
            if not ast.get_docstring(node):
                wrong.append(f"{path}:{node.lineno}: {node.name} has no docstring")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("script", ["gen_c_headers", "gen_op_docs"])
def test_generated_files_are_fresh(script: str) -> None:
    command = [sys.executable, "-m", f"scripts.{script}", "--check"]
    done = subprocess.run(command, cwd=sources.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("target", ["help", "demo", "test", "lib", "run", "ext", "fuzz", "golden"])
def test_make_help_explains(target: str) -> None:
    command = ["make", "--no-print-directory", "help"]
    done = subprocess.run(command, cwd=sources.ROOT, capture_output=True, text=True, check=True)
    assert re.search(rf"^{target}\s+\S", done.stdout, re.MULTILINE)
