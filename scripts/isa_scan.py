"""Finds instructions above a file's declared instruction set, by LLVM's decoder.

The decoder refuses whatever the processor that it is told about does not have; so the tables of
LLVM decide, not a list of names kept here. Code of a kernel level (gemm_neon_a32.c) may use the
level's instructions, and a few functions of the C library and of the compiler may use what they
ask the processor for before; everything else must be known at the baseline.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from armtrain.board.levels import LEVELS
from scripts.elf_facts import Code, with_even_functions

# Older ones do not know all instructions of the C library, nor how to name all others.
LLVM_VERSIONS = range(25, 18, -1)
FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+((?:[0-9a-f]{2,8} )+)\s*(.*)$")
SOURCES = frozenset(
    path.name for path in (Path(__file__).resolve().parents[1] / "kernels").rglob("*.c")
)
"""Names of the project's own C files."""


@dataclass(frozen=True)
class Asked:
    """Functions outside the project that find out at run time what the processor has.

    Attributes
    ----------
    files, functions : str
        Patterns of the source or object file, without its ending, and of the function: a name
        alone is anybody's to take. GNU's linker names every object, LLVM's none that was assembled
        by hand, which then bears the name of the object before it.
    features : str
        What they may use.
    """

    files: str
    functions: str
    features: str

    def holds(self, instruction: Instruction) -> bool:
        """Say whether an instruction is in one of them."""
        return bool(
            re.fullmatch(self.files, Path(instruction.file).stem)
            and re.fullmatch(self.functions, instruction.function)
        )


@dataclass(frozen=True)
class Isa:
    """An instruction set and what may go beyond it.

    Attributes
    ----------
    name : str
        For people.
    triple : str
        What LLVM calls the target.
    baseline : str
        Features of all code, as `-mattr` takes them.
    architecture : str
        Whose kernel levels the code may have.
    adds : Mapping
        What a level needs of the processor, as LLVM says it; empty: in the baseline.
    asked : tuple of Asked
    everything : str
        Features that name any instruction.
    """

    name: str
    triple: str
    baseline: str
    architecture: str
    adds: Mapping[str, str]
    asked: tuple[Asked, ...]
    everything: str

    def levels(self) -> dict[str, str]:
        """Return the features that files of each kernel level add."""
        return {
            level.name: ",".join(filter(None, (self.adds[f] for f in level.features)))
            for level in LEVELS
            if level.architecture == self.architecture
        }


@dataclass(frozen=True)
class Instruction:
    """One instruction of a file.

    Attributes
    ----------
    encoding : bytes
        As in the file.
    kind : str
        `x`, `a` or `t`, as in Code.
    """

    address: int
    function: str
    file: str
    kind: str
    encoding: bytes
    text: str

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.text} at {self.address:#x} in {self.function} ({self.file or 'no file'})"


ARMV7_LESS = ",-neon,-d32,-vfp4,-fp16,-hwdiv,-hwdiv-arm,-mp,-crc,-virtualization"
A32_EVERYTHING = (
    "+v8.6a,+db,+mp,+hwdiv,+hwdiv-arm,+neon,+fp-armv8,+fullfp16,+dotprod,+i8mm,+bf16,+crypto,+crc"
)
AARCH64 = Isa(
    "ARMv8-A",
    "aarch64-linux-gnu",
    "+v8a,+fp-armv8,+neon",
    "aarch64",
    {"NEON": "", "VFPV4": ""},
    (
        Asked(r"(cas|swp|ld[a-z]+)_\d+_\d", r"__aarch64_(cas|swp|ld\w+?)\d+_\w+", "+lse"),
        Asked(r"mem\w+_(a64fx|sve)", r"__mem\w+_(a64fx|sve)", "+sve"),
        Asked(r"__mtag_\w+", r"__libc_mtag_\w+", "+mte"),
        Asked("malloc", r"malloc\w*|calloc|realloc|free|_(int|mid)_\w+(\.\w+)*", "+mte"),
        Asked("unwind-dw2", r"_Unwind_\w+|uw_\w+|execute_stack_op", "+sve"),
    ),
    "+all",
)
ARMV7 = Isa(
    "ARMv7-A with VFPv3-D16",
    "armv7-linux-gnueabihf",
    f"+v7,+vfp3d16{ARMV7_LESS}",
    "arm",
    {"NEON": "+neon", "VFPV4": "+vfp4"},
    (
        Asked(r"mem\w+_neon", r"__mem\w+_neon", "+neon"),
        Asked("libunwind", r"__gnu_Unwind_(Save|Restore)_VFP_D_16_to_31", "+vfp3"),
    ),
    A32_EVERYTHING,
)
ARMV6 = Isa(
    "ARMv6 with VFPv2",
    "armv6-linux-gnueabihf",
    "+v6k,+vfp2,+trustzone,-vfp3d16,-neon,-d32,-db,-v7",
    "armv6",
    {},
    # Barriers alone, in any file: musl's are assembled by hand.
    (Asked(r".*", r"__a_(cas|barrier)_v7", "+db"),),
    A32_EVERYTHING,
)


class NoDisassemblerError(Exception):
    """LLVM's disassembler is not installed."""


def llvm_tool(name: str) -> str:
    """Return the newest installed program, `objdump` or `mc`.

    Raises
    ------
    NoDisassemblerError
        With the package to install.
    """
    for version in LLVM_VERSIONS:
        if found := shutil.which(f"llvm-{name}-{version}"):
            return found
    raise NoDisassemblerError(
        f"llvm-{name} of LLVM 19 or newer is not installed: apt-get install llvm-19"
    )


def encoding_of(words: str) -> bytes:
    """Return the bytes that '4e829420' or 'f3af 8000' stand for; single bytes are in order."""
    return b"".join(bytes.fromhex(word)[::-1] for word in words.split())


def instructions(path: Path, isa: Isa, code: Code) -> list[Instruction]:
    """Return all instructions of a file."""
    command = [llvm_tool("objdump"), "-d", f"--triple={isa.triple}", f"--mattr={isa.everything}"]
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(with_even_functions(path))
        copy.flush()
        done = subprocess.run([*command, copy.name], capture_output=True, text=True, check=True)
    found, function = [], ""
    for line in done.stdout.splitlines():
        if head := FUNCTION.match(line):
            function = head[1]
        elif body := INSTRUCTION.match(line):
            address, text = int(body[1], 16), " ".join(body[3].split())
            file, kind = code.origin(address)
            if kind != "d":
                bits = encoding_of(body[2])
                found.append(Instruction(address, function, file, kind, bits, text))
    return found


def refused(isa: Isa, features: str, listed: Iterable[Instruction]) -> set[tuple[str, bytes]]:
    """Return kind and encoding of what a processor with these features does not have."""
    found = set()
    for kind, triple in (("x", isa.triple), ("a", isa.triple), ("t", f"thumb{isa.triple[3:]}")):
        unique = sorted({i.encoding for i in listed if (i.kind or "x") == kind})
        if not unique:
            continue
        # In brackets a line is decoded for itself, whatever the line before held.
        lines = ("[" + " ".join(f"{byte:#04x}" for byte in bits) + "]" for bits in unique)
        command = [llvm_tool("mc"), "--disassemble", f"--triple={triple}", f"--mattr={features}"]
        done = subprocess.run(
            command, input="\n".join(lines), capture_output=True, text=True, check=False
        )
        numbers = re.findall(r"^<stdin>:(\d+):\d+: warning: invalid", done.stderr, re.MULTILINE)
        found |= {(kind, unique[int(n) - 1]) for n in numbers}
    return found


def extra_features(isa: Isa, instruction: Instruction) -> str:
    """Return the features that an instruction's file or function may add to the baseline."""
    own = instruction.file in SOURCES
    for level, features in isa.levels().items():
        if own and Path(instruction.file).stem.endswith(f"_{level}"):
            return features
    found = (asked.features for asked in isa.asked if not own and asked.holds(instruction))
    return next(found, "")


def scan(path: Path, isa: Isa, code: Code) -> list[Instruction]:
    """Return every instruction that may not be there."""
    listed = instructions(path, isa, code)
    beyond = refused(isa, isa.baseline, listed)
    groups: dict[str, list[Instruction]] = {}
    for instruction in listed:
        if (instruction.kind or "x", instruction.encoding) in beyond:
            groups.setdefault(extra_features(isa, instruction), []).append(instruction)
    found = []
    for features, group in groups.items():
        wrong = refused(isa, f"{isa.baseline},{features}", group) if features else beyond
        found += [i for i in group if (i.kind or "x", i.encoding) in wrong]
    return sorted(found, key=lambda i: i.address)
