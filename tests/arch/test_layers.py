"""Who may know whom: the walls between Python packages and between C folders."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.arch import sources

BASE = {"dtypes", "errors", "atomic", "closing", "files", "limits", "process", "values", "words"}
DESCRIBE = BASE | {"ir"}
# Unit -> the units of armtrain that it may import, besides itself. A unit that is not listed fails.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "files": {"errors"},
    "atomic": {"errors", "files"},
    "closing": set(),
    "dtypes": set(),
    "limits": set(),
    "process": {"errors"},
    "values": {"errors"},
    "words": set(),
    "ir": BASE,
    "nn": DESCRIBE,
    "optim": DESCRIBE,
    "zoo": DESCRIBE | {"nn", "optim"},
    "io": DESCRIBE,
    "board": BASE,
    "boards": set(),
    "data": BASE,
    "passes": DESCRIBE | {"nn", "optim"},
    "schedule": DESCRIBE,
    "memory": BASE | {"_packer"},
    "planfile": DESCRIBE | {"memory", "schedule", "board"},
    "compiler": DESCRIBE
    | {"nn", "optim", "zoo", "io", "board", "passes", "schedule", "memory", "planfile"},
    "runtime": DESCRIBE | {"optim", "planfile", "io", "data", "board", "_engine"},
    "demos": DESCRIBE
    | {"nn", "optim", "zoo", "io", "board", "data", "compiler", "planfile", "runtime"},
    "__init__": {"*"},
    "__main__": {"cli"},
    "cli": {"*"},
}
NUMPY = {"runtime", "io", "data", "cli", "demos"}
EXTRAS = {"onnx", "PIL", "serial", "matplotlib"}
ENVIRONMENT = {"cli"}

# C folders, lowest first: a file may include its own folder, a lower one, and include/.
C_FOLDERS = ("core", "pack", "ukernel", "dispatch", "ops", "engine", "run")
C_ALSO = {"ref": {"core", "ukernel", "ops", "ref"}}


def unit_of(path: Path) -> str:
    """Return the unit of a module: the package or top-level module below armtrain."""
    return path.parts[1].removesuffix(".py")


def package_files() -> list[Path]:
    """Return all modules of the package."""
    return sources.under("armtrain", ".py")


def test_every_unit_has_a_place() -> None:
    assert {unit_of(p) for p in package_files()} <= set(ALLOWED)


def test_python_layers() -> None:
    wrong = []
    for path in package_files():
        unit = unit_of(path)
        allowed = ALLOWED.get(unit, set())
        for name, line, _ in sources.imports(path):
            parts = name.split(".")
            if parts[0] != "armtrain":
                continue
            target = parts[1]
            if target != unit and target not in allowed and "*" not in allowed:
                wrong.append(f"{path}:{line}: {unit} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_only_the_runtime_knows_the_engine() -> None:
    for path in package_files():
        names = {n for n, _, _ in sources.imports(path)}
        if any(n.startswith("armtrain._engine") for n in names):
            assert unit_of(path) in ("runtime", "cli"), path


def test_third_party_imports() -> None:
    wrong = []
    standard = sys.stdlib_module_names
    for path in package_files():
        for name, line, top_level in sources.imports(path):
            root = name.split(".")[0]
            if root == "numpy":
                ok = unit_of(path) in NUMPY or path.name == "init.py"
            elif root in EXTRAS:
                ok = not top_level
            else:
                ok = root in standard or root in ("armtrain", "tqdm")
            if not ok:
                wrong.append(f"{path}:{line}: {name}")
    assert not wrong, "\n".join(wrong)


def test_absolute_imports() -> None:
    for path in sources.python_files():
        nodes = [n for n in ast.walk(sources.tree(path)) if isinstance(n, ast.ImportFrom)]
        relative = [n.lineno for n in nodes if n.level]
        assert not relative, f"{path}: relative import in lines {relative}"


def test_environment_is_read_by_the_command_line_only() -> None:
    for path in package_files():
        if unit_of(path) in ENVIRONMENT:
            continue
        reads = [
            n.lineno
            for n in ast.walk(sources.tree(path))
            if isinstance(n, ast.Attribute) and n.attr in ("environ", "getenv")
        ]
        assert not reads, f"{path}: reads the environment in lines {reads}"


def test_no_mutable_module_state() -> None:
    for path in package_files():
        found = [n.lineno for n in ast.walk(sources.tree(path)) if isinstance(n, ast.Global)]
        assert not found, f"{path}: global statement in lines {found}"


def test_c_includes() -> None:
    include_folder = sources.ROOT / "kernels" / "include"
    wrong = []
    for path in sources.under("kernels", ".c", ".h", ".def", ".inc"):
        folder = path.parts[1]
        if folder == "include":
            allowed = {"include"}
        elif folder in C_ALSO:
            allowed = C_ALSO[folder]
        else:
            allowed = set(C_FOLDERS[: C_FOLDERS.index(folder) + 1])
        for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', sources.text(path), re.MULTILINE):
            head = name.split("/")[0]
            own = (sources.ROOT / path).parent / name
            if not ((include_folder / name).exists() or own.exists() or head in allowed):
                wrong.append(f"{path}: {name}")
    assert not wrong, "\n".join(wrong)


# What may be called where in the C library: pattern -> the folders or files that may.
C_CALLS = {
    r"\b(malloc|calloc|realloc|free|strdup|mmap|munmap)\s*\(": ("engine/", "run/"),
    r"\b(printf|puts|fprintf|perror|putchar|fputs)\s*\(": ("run/",),
    r"\b(exit|_exit|abort)\s*\(": ("run/",),
    r"\b(getenv|secure_getenv)\s*\(": ("core/cpu.c", "run/"),
    r"\b(rand|random|srand|drand48|time|getrandom)\s*\(": ("run/",),
    # No library function that is not correctly rounded; the reference twins compute in double.
    r"(?<![\w.>])(exp|exp2|expm1|log|log2|log10|log1p|pow|tanh|sinh|cosh|sin|cos|tan|erf|cbrt|hypot)[fl]?"
    r"\s*\(": ("ref/",),
}


@pytest.mark.parametrize("pattern", C_CALLS)
def test_c_calls(pattern: str) -> None:
    wrong = []
    for path in sources.under("kernels", ".c", ".h", ".inc"):
        inner = "/".join(path.parts[1:])
        if inner.startswith(C_CALLS[pattern]) and C_CALLS[pattern]:
            continue
        for number, line in enumerate(sources.strip_c(sources.text(path)).split("\n"), 1):
            if re.search(pattern, line):
                wrong.append(f"{path}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)
