"""A new board is what docs/boards.md says: one profile, one captured machine, no test changed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

FOLDERS = ("armtrain", "boards", "docs", "scripts", "tests/boards")
FILES = ("pyproject.toml", "tests/conftest.py", "tests/cases/test_boards.py")
TESTS = ("tests/unit/board", "tests/unit/cli/test_boards.py", "tests/unit/runtime/test_health.py")
# Unlike every board that is described: its id sorts before `generic`, its big core is in no table,
# and its big cores have the lower numbers.
ID, CORE = "example-one", "example-x1"
PARTS = {f'"{CORE}"': (0x41, 0xFE0), '"cortex-a53"': (0x41, 0xD03)}
PROCESSOR = """processor : {number}
Features : fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid
CPU implementer : 0x{part[0]:x}
CPU part : 0x{part[1]:x}

"""


def with_lines(text: str, **lines: str) -> str:
    """Return a TOML text in which the first line of each of these keys says something else."""
    for key, value in lines.items():
        text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text, count=1)
        assert count == 1, key
    return text


def add_core(boards: Path) -> None:
    """Add a table to cores.toml, made from a similar core."""
    path = boards / "cores.toml"
    table = path.read_text().split("[cortex-a73]")[1].split("\n[")[0]
    changed = with_lines(table, name='"Example X1"', midr_part="0xfe0")
    path.write_text(f"{path.read_text()}\n[{CORE}]{changed}")


def add_profile(boards: Path) -> None:
    """Add a profile, made from the most similar one."""
    top, big, little = (boards / "odroid-n2.toml").read_text().split("[[clusters]]")
    top = with_lines(
        top,
        id=f'"{ID}"',
        name='"Example One"',
        compatible='["example,one"]',
        models='["Example One"]',
        near_compatible="[]",
    )
    big = with_lines(big, core=f'"{CORE}"', cpus="[0, 1, 2, 3]")
    little = with_lines(little, cpus="[4, 5]")
    (boards / f"{ID}.toml").write_text("[[clusters]]".join((top, big, little)))


def add_machine(machines: Path) -> None:
    """Add a captured machine."""
    shutil.copytree(machines / "odroid-n2", machines / ID)
    (machines / ID / "proc/device-tree/model").write_bytes(b"Example One\0")
    (machines / ID / "proc/device-tree/compatible").write_bytes(b"example,one\0amlogic,g12b\0")
    cores = [f'"{CORE}"'] * 4 + ['"cortex-a53"'] * 2
    (machines / ID / "proc/cpuinfo").write_text(
        "".join(PROCESSOR.format(number=n, part=PARTS[core]) for n, core in enumerate(cores))
    )


def add_row(document: Path) -> None:
    """Add a row to the table of boards, in the order of the ids."""
    text, row = document.read_text(), f"| `{ID}` | Example: 6 | | | | aarch64 |\n"
    document.write_text(text.replace("| `generic` |", f"{row}| `generic` |", 1))


def test_the_tests_of_boards_hold_with_a_new_one(root: Path, tmp_path: Path) -> None:
    for name in (*FOLDERS, *TESTS, *FILES):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (root / name).is_dir() else shutil.copy2
        copy(root / name, target)
    add_core(tmp_path / "boards")
    add_profile(tmp_path / "boards")
    add_machine(tmp_path / "tests/boards")
    add_row(tmp_path / "docs/boards.md")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    listed = subprocess.run(
        [sys.executable, "-m", "armtrain", "boards"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout.splitlines()[1].startswith(f"{ID} "), "the tests were those of the copy"
