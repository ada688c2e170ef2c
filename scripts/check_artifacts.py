"""Open every file in dist/ and check that it runs on the boards that its name promises.

Usage: python -m scripts.check_artifacts [FILE ...] [--glibc VERSION] [--json]

Checked are: processor and float convention of every ELF file in it; the C library version that it
needs against the wheel's tag (and, with --glibc, a board's own: `ldd --version` there); shared
libraries beyond the C library; alignment for pages up to 64 KiB; size of armtrain-run; and, by
LLVM's tables, that no instruction is above the declared instruction set. Exit code 0: everything
holds, 1: something does not, 2: wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from email import message_from_bytes
from functools import partial
from itertools import product
from pathlib import Path

from scripts.cross_build import DIST, TARGETS
from scripts.elf_facts import ElfFacts, NotElfError, read_elf, version
from scripts.isa_scan import AARCH64, ARMV6, ARMV7, Isa, NoDisassemblerError, scan

RUN_MAX_BYTES = 3 * 1024 * 1024 // 2
SYSTEM_LIBRARIES = re.compile(r"(libc|libm|libpthread|libdl|librt|ld-linux[\w-]*)\.so\.\d+")
# The C interface of NumPy is versioned, and the board's NumPy decides.
NUMPY_INTERFACE = b"_ARRAY_API"
SHOWN = 5
"""Instructions that are listed of one file."""


@dataclass(frozen=True)
class Abi:
    """What a platform name promises.

    Attributes
    ----------
    machine : str
        ELF machine.
    cpu_archs : tuple of str
        Build attributes that 32-bit ARM code may have; empty for other machines.
    page_bytes : int
        Least alignment of mapped segments.
    isa : Isa or None
        None: not scanned.
    manylinux : bool
        Whether a wheel must name the C library that it needs.
    """

    machine: str
    cpu_archs: tuple[str, ...]
    page_bytes: int
    isa: Isa | None
    manylinux: bool = True


ABIS = {
    "aarch64": Abi("EM_AARCH64", (), 65536, AARCH64),
    "armv7l": Abi("EM_ARM", ("v7",), 65536, ARMV7),
    "armv6l": Abi("EM_ARM", ("v6", "v6K", "v6KZ"), 65536, ARMV6),
    "x86_64": Abi("EM_X86_64", (), 4096, None, manylinux=False),
}
PLATFORM = re.compile(r"(?:linux|manylinux_(\d+)_(\d+)|manylinux\w+?)_(?P<abi>[a-z]+\d*\w*)")


# Python's own symbols have no versions; the stable interface stands for them.
PYTHON_SYMBOL = re.compile(r"_?Py\w+")
WHEEL_NAME = "NAME-VERSION-PYTHON-ABI-PLATFORM"

Found = tuple[ElfFacts | None, list[str]]
Limit = tuple[int, ...] | None
"""The newest C library that a file may need."""


@dataclass
class Report:
    """What was found in one artefact."""

    name: str
    platform: str = ""
    size_bytes: int = 0
    glibc: str = ""
    problems: list[str] = field(default_factory=list)


def dotted(numbers: Sequence[int]) -> str:
    """Return '2.34' for (2, 34)."""
    return ".".join(map(str, numbers))


def check_elf(facts: ElfFacts, abi: Abi, limit: Limit) -> Iterator[str]:
    """Yield what is wrong with an ELF file, `limit` being the newest glibc that it may need."""
    if facts.machine != abi.machine:
        yield f"is for {facts.machine}, the name promises {abi.machine}"
        return
    if abi.cpu_archs and not facts.hard_float:
        yield "passes floats in integer registers (soft), boards in float registers (hard)"
    if abi.cpu_archs and facts.cpu_arch not in abi.cpu_archs:
        yield f"is built for ARM{facts.cpu_arch}, allowed are {', '.join(abi.cpu_archs)}"
    least = min(facts.alignments, default=0)
    if least < abi.page_bytes:
        yield f"is aligned for pages of {least} bytes, some kernels have {abi.page_bytes}"
    for name in facts.needed:
        if not SYSTEM_LIBRARIES.fullmatch(name):
            yield f"needs {name}, which a board may not have"
    strange = [name for name in facts.unversioned if not PYTHON_SYMBOL.fullmatch(name)]
    if strange:
        names = f"{', '.join(strange[:SHOWN])}{', ...' * (len(strange) > SHOWN)}"
        yield f"needs {names} in no version: which library has it, and since when, is not said"
    if limit and facts.glibc and facts.glibc[0][0] > limit:
        newest, symbol = facts.glibc[0]
        yield f"needs glibc {dotted(newest)} (symbol {symbol}), allowed is {dotted(limit)}"


def check_instructions(path: Path, facts: ElfFacts, abi: Abi) -> Iterator[str]:
    """Yield instructions above the declared set."""
    if abi.isa is None or facts.machine != abi.machine:
        return
    if not facts.code.starts:
        yield "has no symbols: instructions cannot be told from constants"
        return
    found = scan(path, abi.isa, facts.code)
    for instruction in found[:SHOWN]:
        yield f"is not {abi.isa.name}: {instruction}"
    if len(found) > SHOWN:
        yield f"is not {abi.isa.name}: {len(found) - SHOWN} more instructions"


def check_file(path: Path, name: str, abi: Abi, limit: Limit) -> Found:
    """Return the facts of one ELF file (None: unreadable) and what is wrong with it."""
    try:
        facts = read_elf(path)
    except NotElfError as error:
        return None, [str(error)]
    problems = [*check_elf(facts, abi, limit), *check_instructions(path, facts, abi)]
    return facts, [f"{name} {problem}" for problem in problems]


def wheel_platforms(platforms: str, report: Report) -> list[tuple[Abi, Limit]]:
    """Return what each platform of a wheel's name promises; report one that promises nothing."""
    found: list[tuple[Abi, Limit]] = []
    for platform in platforms.split("."):
        match = PLATFORM.fullmatch(platform)
        abi = ABIS.get(match["abi"]) if match else None
        if match is None or abi is None:
            report.problems.append(f"platform {platform} is none of {', '.join(ABIS)}")
            continue
        report.platform = match["abi"]
        limit = (int(match[1]), int(match[2])) if match[1] else None
        if abi.manylinux and limit is None:
            said = f"its tag names no C library version: {platform}; `auditwheel repair` adds it"
            report.problems.append(said)
        found.append((abi, limit))
    return found


def check_wheel(path: Path, report: Report, board: Limit) -> None:
    """Check a wheel."""
    parts = path.stem.split("-")
    if len(parts) != len(WHEEL_NAME.split("-")):
        report.problems.append(f"is not named {WHEEL_NAME}.whl")
        return
    if parts[2:4] != ["cp311", "abi3"]:
        report.problems.append(f"is tagged {'-'.join(parts[2:4])}, not cp311-abi3")
    promised = wheel_platforms(parts[4], report)
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
        report.problems += check_metadata(archive, parts)
        names = [n for n in archive.namelist() if n.endswith(".so") or ".so." in n]
        if not names:
            report.problems.append("holds no compiled extension")
        for name in names:
            if not name.endswith(".abi3.so"):
                report.problems.append(f"{name} is not of the stable interface (.abi3.so)")
            file = Path(archive.extract(name, folder))
            if NUMPY_INTERFACE in file.read_bytes():
                report.problems.append(f"{name} uses NumPy's C interface: the board's may differ")
            for abi, limit in promised:
                oldest = min((v for v in (limit, board) if v), default=None)
                add(report, check_file(file, name, abi, oldest))


def check_metadata(archive: zipfile.ZipFile, parts: Sequence[str]) -> Iterator[str]:
    """Yield where a wheel's metadata and its name differ: pip goes by the name alone."""
    read = partial(_fields, archive)
    named = {"-".join(tag) for tag in product(*(part.split(".") for part in parts[2:5]))}
    written = set(read("WHEEL", "Tag"))
    for tag in sorted(written - named):
        yield f"its WHEEL file says {tag}, its name does not"
    for tag in sorted(named - written):
        yield f"its name says {tag}, its WHEEL file does not"
    for field_name, value in zip(("Name", "Version"), parts, strict=False):
        # In the name of the file, what would separate its parts is written otherwise.
        told = [re.sub("[-_]+", "_", text) for text in read("METADATA", field_name)]
        if told != [value]:
            said = ", ".join(told) or "nothing"
            yield f"its METADATA says {field_name} {said}, its name says {value}"


def _fields(archive: zipfile.ZipFile, file: str, name: str) -> list[str]:
    """Return the values of a field in the head of a file of a wheel's metadata.

    Raises
    ------
    zipfile.BadZipFile
        The wheel has no such file, or several.
    """
    found = [n for n in archive.namelist() if n.endswith(f".dist-info/{file}")]
    if len(found) != 1:
        raise zipfile.BadZipFile(f"it has {len(found)} files .dist-info/{file}, needed is 1")
    return message_from_bytes(archive.read(found[0])).get_all(name, [])


def check_run(path: Path, report: Report) -> None:
    """Check an armtrain-run."""
    tags = {f"armtrain-run-{t.name}": t.wheel_tag for t in TARGETS}
    if path.name not in tags:
        report.problems.append(f"is none of {', '.join(tags)}")
        return
    report.platform = tags[path.name]
    found = check_file(path, path.name, ABIS[report.platform], None)
    add(report, found)
    facts, _ = found
    if facts and (facts.needed or facts.interpreter):
        report.problems.append(f"{path.name} is not static")
    if report.size_bytes > RUN_MAX_BYTES:
        size = f"{report.size_bytes} bytes, allowed are {RUN_MAX_BYTES}"
        report.problems.append(f"{path.name} has {size}")


def add(report: Report, found: Found) -> None:
    """Add what one ELF file showed."""
    facts, problems = found
    report.problems += problems
    if facts and facts.glibc:
        report.glibc = dotted(facts.glibc[0][0])


def check(path: Path, board: Limit = None) -> Report:
    """Check one artefact; `board` is the glibc version of a board, if asked for."""
    report = Report(path.name)
    try:
        report.size_bytes = path.stat().st_size
        if path.suffix == ".whl":
            check_wheel(path, report, board)
        elif path.name.startswith("armtrain-run"):
            check_run(path, report)
        else:
            report.problems.append("is neither a wheel nor an armtrain-run")
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        report.problems.append(f"cannot be read: {error}")
    return report


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="default: all of dist/")
    parser.add_argument(
        "--glibc", type=version, metavar="VERSION", help="a board's C library, such as 2.36"
    )
    parser.add_argument("--json", action="store_true", help="print JSON alone")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 when everything holds, 1 otherwise."""
    options = parse(arguments)
    # A source distribution holds no machine code.
    files = options.files or sorted(p for p in DIST.glob("armtrain*") if p.suffix != ".gz")
    if not files:
        print("armtrain: dist/ holds nothing to check; `make cross` fills it", file=sys.stderr)
        return 1
    try:
        reports = [check(path, options.glibc) for path in files]
    except NoDisassemblerError as error:
        print(f"armtrain: instructions cannot be checked: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps([asdict(r) | {"ok": not r.problems} for r in reports], indent=2))
        return int(any(r.problems for r in reports))
    for report in reports:
        needs = f", glibc {report.glibc}" if report.glibc else ""
        verdict = "FAILED" if report.problems else "ok"
        print(f"{report.name}: {verdict}, {report.size_bytes} bytes{needs}")
        for problem in report.problems:
            print(f"    {problem}")
    return int(any(r.problems for r in reports))


if __name__ == "__main__":
    sys.exit(main())
