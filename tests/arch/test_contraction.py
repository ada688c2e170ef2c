"""Multiply and add fuse where every path fuses, and nowhere else: read from the object files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OBJECTS = ROOT / "build" / "obj"
FUSED = re.compile(r"\bvf(?:n?m)(?:add|sub)\w*[sp]s\b")
PRODUCTS = re.compile(r"\bv?mul[sp]s\b")

pytestmark = pytest.mark.skipif(
    shutil.which("objdump") is None, reason="objdump is not installed (package binutils)"
)


def disassembly(path: Path) -> str:
    """Return the instructions of an object file."""
    return subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def objects(folder: str) -> list[Path]:
    """Return the built objects below `folder`."""
    found = sorted((OBJECTS / folder).rglob("*.o"))
    assert found, f"no objects in {OBJECTS / folder}: run make lib"
    return found


def test_fusing_levels_fuse_every_product() -> None:
    """In the fused matrix kernels no product is rounded on its own."""
    fusing = [p for p in objects("ukernel/gemm") if p.stem.endswith(("avx2", "avx512"))]
    for path in fusing:
        text = disassembly(path)
        assert FUSED.search(text), f"{path.name} has no fused multiply-add"
        assert not PRODUCTS.search(text), f"{path.name} rounds a product on its own"


@pytest.mark.parametrize("folder", ["core", "dispatch", "engine", "ops", "ukernel/vec"])
def test_everything_else_never_fuses(folder: str) -> None:
    """Element-wise kernels, operations and the engine keep two roundings."""
    for path in objects(folder):
        assert not FUSED.search(disassembly(path)), f"{path.name} fuses a multiply and an add"


def test_plain_matrix_levels_never_fuse() -> None:
    """The levels without fused multiply-add are one numeric class."""
    for path in objects("ukernel/gemm"):
        if not path.stem.endswith(("avx2", "avx512")):
            assert not FUSED.search(disassembly(path)), path.name
