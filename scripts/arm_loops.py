"""Inner loops of the ARM matrix kernels, read from object files and timed by llvm-mca's models.

A model's cycle knows no caches, no branches mispredicted and no clock: it says how well a loop uses
a core's multiply-adders, not how long a board takes.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from armtrain.board.levels import LEVELS

MODELLER = "llvm-mca-19"
ITERATIONS = 200
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*?)\s*(?:(?://|@|;)\s.*)?$")
JUMP_TARGET = re.compile(r"\b([0-9a-f]+) <[^>]*>")
JUMP = re.compile(r"^(?!blx?$|blr$|br$|bic|bif|bit|bsl|bfi|bfc|bfx|bx)(?:b|cb|tb)\S*$")


@dataclass(frozen=True)
class Core:
    """A processor model of llvm-mca and what the core can do at best.

    Attributes
    ----------
    name : str
        The core that is meant.
    model : str
        The processor whose model is used: a neighbour's where the core has none.
    bound : float
        Cycles per 128-bit multiply-add that the model's multiply-adders allow.
    note : str
        What a reader of the figure should know.
    """

    name: str
    model: str
    bound: float
    note: str = ""


@dataclass(frozen=True)
class Architecture:
    """How objects of one architecture are read.

    Attributes
    ----------
    name, triple, modeller_flags : str
        Folder below build/, prefix of the binary tools, options of llvm-mca.
    prologue : str
        Lines in front of a loop for llvm-mca's assembler.
    multiply_add, store : re.Pattern
        Names of the instructions that add a term, and of those that write memory.
    cores : tuple of Core
        What to time on.
    """

    name: str
    triple: str
    modeller_flags: tuple[str, ...]
    prologue: str
    multiply_add: re.Pattern[str]
    store: re.Pattern[str]
    cores: tuple[Core, ...]

    @property
    def levels(self) -> tuple[str, ...]:
        """Return the kernel levels with vector matrix products."""
        architecture = self.triple.split("-")[0]
        return tuple(level.name for level in LEVELS if level.architecture == architecture)


A9_MODEL = "LLVM has one model for Cortex-A9, A15 and A17"
ARCHITECTURES = (
    Architecture(
        "aarch64",
        "aarch64-linux-gnu",
        ("-mtriple=aarch64-linux-gnu",),
        "",
        re.compile(r"^fmla$"),
        re.compile(r"^st"),
        (
            Core("cortex-a53", "cortex-a53", 1.0),
            Core("cortex-a55", "cortex-a55", 0.5, "the model issues two a cycle, the core one"),
            Core("cortex-a72", "cortex-a72", 1.0, "LLVM's model is Cortex-A57's"),
            Core("cortex-a76", "neoverse-n1", 0.5, "Neoverse N1 is the same core"),
        ),
    ),
    Architecture(
        "armv7",
        "arm-linux-gnueabihf",
        ("-mtriple=thumbv7-linux-gnueabihf", "-mattr=+neon,+vfp4"),
        ".syntax unified\n.thumb\n.fpu neon-vfpv4\n",
        re.compile(r"^v(?:mla|fma)\.f32$"),
        re.compile(r"^(?:v?st|v?push)"),
        (
            Core("cortex-a7", "cortex-a9", 1.0, f"borrowed, LLVM has none for A7: {A9_MODEL}"),
            Core("cortex-a9", "cortex-a9", 1.0, A9_MODEL),
            Core("cortex-a15", "cortex-a15", 1.0, A9_MODEL),
        ),
    ),
)


@dataclass(frozen=True)
class Instruction:
    """One line of a disassembly: its address, its name and the rest."""

    address: int
    name: str
    operands: str

    @property
    def target(self) -> int | None:
        """Where a jump inside the function goes, None for anything else."""
        found = JUMP_TARGET.search(self.operands)
        return int(found[1], 16) if found and JUMP.match(self.name) else None


def functions(text: str) -> dict[str, list[Instruction]]:
    """Return the functions of a disassembly by GNU objdump."""
    parts = re.split(r"^[0-9a-f]+ <([^>]+)>:$", text, flags=re.MULTILINE)[1:]
    found = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        lines = (LINE.match(line) for line in body.splitlines())
        found[name] = [Instruction(int(m[1], 16), m[2], m[3]) for m in lines if m]
    return found


def disassemble(arch: Architecture, path: Path) -> dict[str, list[Instruction]]:
    """Return the functions of an object file."""
    command = [f"{arch.triple}-objdump", "-d", "--no-show-raw-insn", str(path)]
    return functions(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def inner_loops(body: list[Instruction]) -> list[list[Instruction]]:
    """Return the loops of a function that contain no other loop."""
    spans = {(i.target, i.address) for i in body if i.target is not None and i.target < i.address}
    inner = [s for s in spans if not any(o != s and s[0] <= o[0] and o[1] <= s[1] for o in spans)]
    return [[i for i in body if start <= i.address <= end] for start, end in sorted(inner)]


def terms(arch: Architecture, loop: list[Instruction]) -> int:
    """Return how many vector multiply-adds a loop holds."""
    return sum(bool(arch.multiply_add.match(i.name)) for i in loop)


def stores(arch: Architecture, loop: list[Instruction]) -> int:
    """Return how many instructions of a loop write memory."""
    return sum(bool(arch.store.match(i.name)) for i in loop)


def main_loop(arch: Architecture, body: list[Instruction]) -> list[Instruction]:
    """Return the inner loop with the most multiply-adds; of equals the shortest.

    Raises
    ------
    ValueError
        If no inner loop multiplies.
    """
    loops = [loop for loop in inner_loops(body) if terms(arch, loop)]
    if not loops:
        raise ValueError(f"no inner loop with multiply-adds in {len(body)} instructions")
    return max(loops, key=lambda loop: (terms(arch, loop), -len(loop)))


def assembly(arch: Architecture, loop: list[Instruction]) -> str:
    """Return a loop as llvm-mca reads it; jumps go to its end."""
    lines = [f"{i.name} {JUMP_TARGET.sub('1f', i.operands)}" for i in loop]
    return arch.prologue + "\n".join(lines) + "\n1:\n"


def cycles(arch: Architecture, core: Core, text: str) -> float:
    """Return the cycles of one turn of a loop in its steady state, by the core's model."""
    totals = []
    for iterations in (ITERATIONS, 2 * ITERATIONS):
        command = [MODELLER, *arch.modeller_flags, f"-mcpu={core.model}"]
        done = subprocess.run(
            [*command, f"-iterations={iterations}"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        found = re.search(r"^Total Cycles:\s+(\d+)", done.stdout, flags=re.MULTILINE)
        if not found:
            raise ValueError(f"{MODELLER} cannot time this loop: {done.stderr}\n{text}")
        totals.append(int(found[1]))
    return (totals[1] - totals[0]) / ITERATIONS


def measure_level(arch: Architecture, level: str, path: Path) -> dict[str, dict[str, object]]:
    """Return the figures of a level's tiles: stores of all, cycles of the largest."""
    found: dict[str, dict[str, object]] = {}
    tiles: dict[str, list[tuple[int, int, str]]] = {}
    code = disassemble(arch, path)
    for name in code:
        tile = re.fullmatch(r"art_(rows|pixels)_(\d)x(\d)", name)
        if tile:
            tiles.setdefault(tile[1], []).append((int(tile[2]), int(tile[3]), name))
    for kind, members in sorted(tiles.items()):
        rows, vectors, name = max(members)
        loop = main_loop(arch, code[name])
        count, text = terms(arch, loop), assembly(arch, loop)
        inside = [lp for *_, n in members for lp in inner_loops(code[n]) if terms(arch, lp)]
        found[f"{level} {kind}"] = {
            "tile": f"{rows}x{4 * vectors}",
            "instructions": len(loop),
            "multiply_adds": count,
            "stores_in_all_tiles": sum(stores(arch, lp) for lp in inside),
            "cycles_per_multiply_add": {
                core.name: round(cycles(arch, core, text) / count, 3) for core in arch.cores
            },
        }
    return found
