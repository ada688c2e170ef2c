"""Kernel levels are listed once, in armtrain/board/levels.py."""

from __future__ import annotations

import re
from pathlib import Path

from armtrain.board.levels import LEVELS, fastest_level, level_names
from tests.arch import sources

LIST = Path("armtrain/board/levels.py")
# Files made from the list; processor models with the level that each must get.
ALSO = {
    Path("kernels/include/art_levels.h"),
    Path("kernels/levels.mk"),
    Path("scripts/emulate.py"),
}
SUFFIXES = {
    ".py",
    ".pyi",
    ".pyx",
    ".pxd",
    ".pxi",
    ".c",
    ".h",
    ".def",
    ".inc",
    ".mk",
    ".sh",
    ".toml",
}


def test_no_second_list_of_levels() -> None:
    """A file outside the tests that names three levels is a list, however it is written."""
    names = [level for level in level_names() if level != "c"]
    for path in sources.files():
        code = path.suffix in SUFFIXES or path.name == "Makefile"
        if not code or path in ALSO | {LIST} or path.parts[0] == "tests":
            continue
        named = [
            n for n in names if re.search(rf"(?<![a-z0-9]){n}(?![a-z0-9])", sources.text(path))
        ]
        assert len(named) < 3, f"{path} lists {', '.join(named)}: derive it from {LIST}"


def test_every_level_has_its_files() -> None:
    """One file of each family, and no file of a level that is not listed."""
    for family in ("gemm", "vec"):
        stems = {p.stem for p in sources.under("kernels", ".c") if p.parts[-2] == family}
        assert stems == {f"{family}_{name}" for name in level_names()}


def test_levels_are_ordered_and_distinct() -> None:
    """A level that needs more than another of its architecture comes after it."""
    assert len(set(level_names())) == len(LEVELS)
    for level in LEVELS:
        got = fastest_level(level.architecture or "x86_64", frozenset(level.features))
        assert got == level.name
