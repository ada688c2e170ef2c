"""Multiply and add fuse where every path fuses, and nowhere else: read from the object files.

Objects of this machine are in build/obj, those of cross builds in build/aarch64/obj and
build/armv7/obj; what has not been built is skipped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from armtrain.board.levels import LEVELS

ROOT = Path(__file__).resolve().parents[2]
FUSING = tuple(level.name for level in LEVELS if level.fused)
PLACE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)(.*)")


@dataclass(frozen=True)
class Build:
    """Objects of one architecture and the spelling of its instructions.

    Attributes
    ----------
    folder, objdump : str
        Where the objects are below the root, and the program that reads them.
    fused, product : str
        Patterns of a fused multiply-add and of a product that is rounded on its own.
    baseline : str
        Pattern of what only files of a level may hold.
    """

    folder: str
    objdump: str
    fused: str
    product: str
    baseline: str


X86 = Build(
    "build/obj",
    "objdump",
    r"^vf(?:n?m)(?:add|sub)\w*[sp]s$",
    r"^v?mul[sp]s$",
    r"^v(?!er)",
)
A64 = Build(
    "build/aarch64/obj",
    "aarch64-linux-gnu-objdump",
    r"^f(?:n?madd|n?msub|mla|mls)$",
    r"^fn?mul$",
    r"^(?:sdot|udot|fmlal|bf\w*mm\w*|smmla|ld1w)$",
)
A32 = Build(
    "build/armv7/obj",
    "arm-linux-gnueabihf-objdump",
    r"^vfn?m[as]\.f(?:32|64)$",
    r"^v(?:n?mul|n?ml[as])\.f32$",
    r"^v(?:ld1|st1|dup|mlal|shl|add\.i|mul\.i|and|eor|orr|bsl|bit|cvt\.\w+\.\w+.q)",
)
BUILDS = (X86, A64, A32)


@cache
def instructions(build: Build, path: Path, symbol: str = "") -> tuple[tuple[int, str, str], ...]:
    """Return (address, name, operands) of the instructions of functions that match `symbol`."""
    if shutil.which(build.objdump) is None:
        pytest.skip(f"{build.objdump} is not installed (package binutils of that architecture)")
    command = [build.objdump, "-d", "--no-show-raw-insn", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    bodies = re.split(r"^[0-9a-f]+ <([^>]+)>:$", text, flags=re.MULTILINE)[1:]
    lines = [
        line
        for name, body in zip(bodies[::2], bodies[1::2], strict=True)
        if re.search(symbol, name)
        for line in body.splitlines()
    ]
    found = (PLACE.match(line) for line in lines)
    return tuple((int(m[1], 16), m[2], m[3]) for m in found if m)


def has(build: Build, path: Path, pattern: str) -> bool:
    """Return whether an instruction's name matches."""
    return any(re.search(pattern, name) for _, name, _ in instructions(build, path))


def objects(build: Build, folder: str) -> list[Path]:
    """Return the built objects below `folder`."""
    found = sorted((ROOT / build.folder / folder).rglob("*.o"))
    if not found:
        pytest.skip(f"no objects in {build.folder}/{folder}: not built")
    return found


each_build = pytest.mark.parametrize("build", BUILDS, ids=["x86", "a64", "a32"])


each_product = pytest.mark.parametrize("folder", ["ukernel/gemm", "ukernel/roof"])


@each_build
@each_product
def test_fusing_levels_fuse_every_product(build: Build, folder: str) -> None:
    """In the fused matrix kernels, and what they are compared with, each product fuses."""
    for path in objects(build, folder):
        if path.stem.endswith(FUSING):
            assert has(build, path, build.fused), f"{path.name} has no fused multiply-add"
            assert not has(build, path, build.product), f"{path.name} rounds a product on its own"


@each_build
@pytest.mark.parametrize(
    "folder", ["core", "pack", "dispatch", "engine", "ops", "run", "ukernel/vec"]
)
def test_everything_else_never_fuses(build: Build, folder: str) -> None:
    """Element-wise kernels, operations and the engine keep two roundings."""
    for path in objects(build, folder):
        assert not has(build, path, build.fused), f"{path.name} fuses a multiply and an add"


@each_build
@each_product
def test_plain_matrix_levels_never_fuse(build: Build, folder: str) -> None:
    """The levels without fused multiply-add are one numeric class."""
    for path in objects(build, folder):
        if not path.stem.endswith(FUSING):
            assert not has(build, path, build.fused), path.name


@each_build
@pytest.mark.parametrize("folder", ["core", "pack", "dispatch", "engine", "ops", "run"])
def test_shared_files_stay_at_the_baseline(build: Build, folder: str) -> None:
    """Only the files of a level hold its instructions."""
    for path in objects(build, folder):
        assert not has(build, path, build.baseline), path.name
