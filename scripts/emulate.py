"""Cross-build the C tests and run them on emulated ARM processors.

Usage: emulate.py [--require] [--only aarch64|armv7|armv6] [--test NAME ...]

Every row of TARGETS is built into build/NAME and run under user-mode emulation once per kernel
level. Models differ in what the kernel reports about them, so the choice of kernels is tested on
every model.
Emulated time says nothing about a board's speed. Without --require a target whose tools are
missing is skipped, with the package to install.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 900  # seconds for one test program
# What a second processor model of one level runs: the other tests run the same instructions there.
CHOICE_TESTS = (
    "test_engine",
    "test_no_alloc",
    "test_op_values",
    "test_pool",
    "test_product",
    "test_subnormals",
    "test_tiles",
)


@dataclass(frozen=True)
class Target:
    """One architecture: how it is built and which processors run it.

    Attributes
    ----------
    name : str
        CROSS of kernels.mk, and the folder below build/.
    tools : dict
        Programs that are needed besides make, and what brings them.
    emulator : str
        Program that runs its executables here.
    root : str
        Folder with lib/ of the target, for executables that are not static.
    levels : dict
        Processor model to the kernel level that must be chosen on it.
    """

    name: str
    tools: dict[str, str] = field(hash=False)
    emulator: str
    root: str
    levels: dict[str, str] = field(hash=False)

    @property
    def build(self) -> Path:
        """Folder of the target's objects and programs."""
        return ROOT / "build" / self.name

    def missing(self) -> list[str]:
        """Return what is missing here, in words."""
        needed = self.tools | {self.emulator: "package qemu-user-static", "make": "package make"}
        # Programs of a virtual environment lie beside its Python.
        path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
        absent = [(t, p) for t, p in needed.items() if shutil.which(t, path=path) is None]
        return [f"{tool} is not installed ({bringer})" for tool, bringer in absent]

    def make(self, *goals: str) -> None:
        """Build make goals for this target; CalledProcessError when that fails."""
        place = [f"VENV={sys.prefix}", f"CROSS={self.name}", "STATIC_TESTS=1"]
        jobs = f"-j{os.cpu_count() or 1}"
        # The job server of an outer make is not ours to use.
        environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
        command = ["make", "--silent", "--no-print-directory", jobs, *goals, *place]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)

    def runs(self, names: Sequence[str]) -> list[tuple[str, Path]]:
        """Return the processor model and the program of every run of the tests `names`."""
        seen: set[str] = set()
        chosen: list[tuple[str, Path]] = []
        for model, level in self.levels.items():
            fitting = [n for n in names if level not in seen or n in CHOICE_TESTS]
            chosen += [(model, self.build / "tests" / n) for n in fitting]
            seen.add(level)
        return chosen

    def command(self, model: str, program: Path) -> list[str]:
        """Return the command that runs `program` on a processor model."""
        return [self.emulator, "-cpu", model, "-L", self.root, str(program)]


TARGETS = (
    Target(
        "aarch64",
        {"aarch64-linux-gnu-gcc": "package gcc-aarch64-linux-gnu"},
        "qemu-aarch64-static",
        "/usr/aarch64-linux-gnu",
        {"cortex-a53": "neon_a64", "cortex-a72": "neon_a64"},
    ),
    Target(
        "armv7",
        {"arm-linux-gnueabihf-gcc": "package gcc-arm-linux-gnueabihf"},
        "qemu-arm-static",
        "/usr/arm-linux-gnueabihf",
        {
            "cortex-a7": "neonv4_a32",
            "cortex-a15": "neonv4_a32",
            "cortex-a9": "neon_a32",
            "cortex-a9,neon=off": "c",
        },
    ),
    Target(
        "armv6",
        {
            "python-zig": "pip package ziglang",
            "arm-linux-gnueabihf-strip": "package binutils-arm-linux-gnueabihf",
        },
        "qemu-arm-static",
        "/",
        {"arm1176": "c"},
    ),
)


def run_one(target: Target, model: str, program: Path) -> bool:
    """Run one test program on one processor model, print a line, return whether it passed."""
    begin = time.monotonic()
    try:
        done = subprocess.run(
            target.command(model, program),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        code, said = done.returncode, done.stdout.strip()
    except subprocess.TimeoutExpired:
        code, said = 124, f"no end after {TIMEOUT} s"
    seconds = time.monotonic() - begin
    lines = said.splitlines() or ["(silent)"]
    notes = [line for line in lines[:-1] if "skipped" in line or "left out" in line]
    shown = lines if code else [*notes, lines[-1]]
    verdict = "ok" if code == 0 else f"FAILED ({code})"
    print(f"{target.name} {model} {program.name}: {verdict}, {seconds:.0f} s", flush=True)
    print("".join(f"    {line}\n" for line in shown), end="", flush=True)
    return code == 0


def run_target(target: Target, wanted: Sequence[str]) -> tuple[int, int]:
    """Build and run a target's tests; return how many runs passed and failed."""
    target.make("c-tests")
    names = sorted(p.stem for p in (ROOT / "tests" / "c").glob("test_*.c"))
    chosen = [n for n in names if not wanted or n in wanted]
    runs = target.runs(chosen)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda run: run_one(target, *run), runs))
    return results.count(True), results.count(False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 when nothing failed."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--require", action="store_true", help="missing tools are a failure")
    parser.add_argument("--only", choices=[t.name for t in TARGETS], help="one target")
    parser.add_argument("--test", action="append", default=[], help="one test, may be repeated")
    options = parser.parse_args(arguments)
    passed, failed = 0, 0
    for target in TARGETS:
        if options.only not in (None, target.name):
            continue
        missing = target.missing()
        if missing:
            print(f"{target.name}: skipped, {'; '.join(missing)}")
            failed += options.require
            continue
        good, bad = run_target(target, options.test)
        passed, failed = passed + good, failed + bad
    print(f"emulated tests: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
