"""What an ELF file says of itself: processor, float convention, libraries, alignment, symbols."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import ARMAttributesSection, SymbolTableSection

MAPPING = re.compile(r"\$([xatd])(\.|$)")
ELF32_VALUE, ELF32_INFO, IFUNC = 4, 12, 10  # of a symbol: where they are; a type
EXECUTABLE = 4
"""Flag of sections that hold instructions."""
CPU_ARCH = {6: "v6", 7: "v6KZ", 8: "v6T2", 9: "v6K", 10: "v7", 14: "v8"}


class NotElfError(Exception):
    """The file is no readable ELF file."""


@dataclass(frozen=True)
class Code:
    """Which source file an address belongs to, and what kind of instruction it holds.

    Mapping symbols stand where each object's instructions and constants begin, after the name of
    its source file; so everything up to the next one is from that file.

    Attributes
    ----------
    starts : tuple of int
        Addresses, ascending.
    origins : tuple of (file, kind)
        What begins there; kinds are `x` (A64), `a` (A32), `t` (Thumb) and `d` (constants).
    """

    starts: tuple[int, ...]
    origins: tuple[tuple[str, str], ...]

    def origin(self, address: int) -> tuple[str, str]:
        """Return file and kind at an address, empty where no symbol tells."""
        place = bisect_right(self.starts, address) - 1
        return self.origins[place] if place >= 0 else ("", "")


@dataclass(frozen=True)
class ElfFacts:
    """Facts of one file.

    Attributes
    ----------
    machine : str
        `EM_AARCH64`, `EM_ARM`, `EM_X86_64`, ...
    bits : int
        32 or 64.
    interpreter : bool
        Whether a dynamic loader starts it.
    needed : tuple of str
        Names of shared libraries.
    glibc : tuple of (version, symbol)
        Versions of glibc that it asks for, as numbers, newest first, with a symbol of each.
    unversioned : tuple of str
        Symbols that it needs from whoever has them, in any version.
    alignments : tuple of int
        Bytes, of the segments that are mapped.
    cpu_arch, hard_float : str, bool
        32-bit ARM: the architecture, and whether floats are passed in registers.
    code : Code
    """

    machine: str
    bits: int
    interpreter: bool
    needed: tuple[str, ...]
    glibc: tuple[tuple[tuple[int, ...], str], ...]
    unversioned: tuple[str, ...]
    alignments: tuple[int, ...]
    cpu_arch: str
    hard_float: bool
    code: Code = field(repr=False)


def version(text: str) -> tuple[int, ...]:
    """Return the numbers in '2.34'."""
    return tuple(int(part) for part in text.split("."))


def _needed(elf: ELFFile) -> Iterator[str]:
    """Yield the names of shared libraries."""
    for segment in elf.iter_segments():
        if isinstance(segment, DynamicSegment):
            # The library sets the attribute; its type hints do not know it.
            tags = (t for t in segment.iter_tags() if t.entry.d_tag == "DT_NEEDED")
            yield from (str(vars(t)["needed"]) for t in tags)


def _glibc(elf: ELFFile) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Return the versions of glibc that symbols ask for, newest first."""
    names: dict[int, str] = {}
    versions: dict[int, tuple[int, ...]] = {}
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for _, wanted in section.iter_versions():
                for entry in wanted:
                    if entry.name.startswith("GLIBC_2"):
                        versions[entry.entry.vna_other] = version(entry.name[6:])
        elif isinstance(section, GNUVerSymSection):
            for number, symbol in enumerate(section.iter_symbols()):
                index = symbol.entry.ndx
                if isinstance(index, int):
                    names.setdefault(index, section.get_symbol(number).name)
    found = [(v, names.get(i, "?")) for i, v in versions.items()]
    return tuple(sorted(found, reverse=True))


def _unversioned(elf: ELFFile) -> Iterator[str]:
    """Yield the names of needed symbols without a version; weak ones may be absent."""
    indices: list[object] = []
    for section in elf.iter_sections():
        if isinstance(section, GNUVerSymSection):
            indices = [symbol.entry.ndx for symbol in section.iter_symbols()]
    for section in elf.iter_sections():
        if not isinstance(section, SymbolTableSection) or section.name != ".dynsym":
            continue
        for number, symbol in enumerate(section.iter_symbols()):
            needed = symbol.entry.st_shndx == "SHN_UNDEF"
            # Without the table of versions no symbol has one.
            versioned = number < len(indices) and isinstance(indices[number], int)
            if needed and not versioned and symbol.entry.st_info.bind == "STB_GLOBAL":
                yield symbol.name


def _arm_attributes(elf: ELFFile) -> dict[str, int]:
    """Return the build attributes of 32-bit ARM code."""
    return {
        attribute.tag: attribute.value
        for section in elf.iter_sections()
        if isinstance(section, ARMAttributesSection)
        for part in section.iter_subsections()
        for inner in part.iter_subsubsections()
        for attribute in inner.iter_attributes()
    }


def _code(elf: ELFFile) -> Code:
    """Return which file each range of instructions is from."""
    starts: dict[int, tuple[str, str]] = {}
    executable = {i for i, s in enumerate(elf.iter_sections()) if s.header.sh_flags & EXECUTABLE}
    for section in elf.iter_sections():
        if not isinstance(section, SymbolTableSection) or section.name != ".symtab":
            continue
        name = ""
        for symbol in section.iter_symbols():
            if symbol.entry.st_info.type == "STT_FILE":
                name = symbol.name
            elif symbol.entry.st_shndx in executable and (kind := MAPPING.match(symbol.name)):
                starts[symbol.entry.st_value] = (name, kind[1])
    ordered = sorted(starts)
    return Code(tuple(ordered), tuple(starts[s] for s in ordered))


def with_even_functions(path: Path) -> bytes:
    """Return a file's bytes without the mark of Thumb code in the addresses of indirect functions.

    LLVM's decoder knows the mark in plain functions alone: it would read an indirect one from the
    second byte of its first instruction on.
    """
    content = bytearray(path.read_bytes())
    elf = ELFFile(BytesIO(content))
    for section in elf.iter_sections():
        if elf.elfclass != 32 or not isinstance(section, SymbolTableSection):
            continue
        for number in range(section.num_symbols()):
            entry = section.header.sh_offset + number * section.header.sh_entsize
            if content[entry + ELF32_INFO] & 0xF == IFUNC:
                content[entry + ELF32_VALUE] &= 0xFE
    return bytes(content)


def read_elf(path: Path) -> ElfFacts:
    """Read the facts of a file.

    Raises
    ------
    NotElfError
        It is no ELF file or a damaged one.
    """
    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            segments = list(elf.iter_segments())
            attributes = _arm_attributes(elf)
            return ElfFacts(
                machine=str(elf.header.e_machine),
                bits=int(elf.elfclass),
                interpreter=any(s.header.p_type == "PT_INTERP" for s in segments),
                needed=tuple(_needed(elf)),
                glibc=_glibc(elf),
                unversioned=tuple(_unversioned(elf)),
                alignments=tuple(
                    s.header.p_align for s in segments if s.header.p_type == "PT_LOAD"
                ),
                cpu_arch=CPU_ARCH.get(attributes.get("TAG_CPU_ARCH", -1), "?"),
                hard_float=attributes.get("TAG_ABI_VFP_ARGS") == 1,
                code=_code(elf),
            )
    except (ELFError, ValueError, KeyError) as error:
        raise NotElfError(f"{path.name} is no readable ELF file: {error}") from None
