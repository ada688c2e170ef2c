"""Compare the speed figures of the ARM kernels with the stored ones; none of them is a time.

Usage: arm_perf.py [--update] [--require]

Two kinds of figures, both the same on every host with the same tools: instructions per thousand
floating-point operations of every operation, counted under emulation, and cycles per multiply-add
of the matrix kernels' inner loops on llvm-mca's processor models. A figure that got worse than
tests/bench/arm_perf.json by more than TOLERANCE fails, and so does a store to memory in an inner
loop. --update stores today's figures. Without --require missing tools are reported and skipped.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from scripts import arm_counts, arm_loops
from scripts.emulate import ROOT, TARGETS

STORED = ROOT / "tests" / "bench" / "arm_perf.json"
TOLERANCE = 0.02
ABOUT = (
    "Model figures, not seconds: instructions per kFLOP counted under emulation, and cycles per "
    "128-bit multiply-add of inner loops on llvm-mca's processor models, without caches. "
    "`make arm-perf` compares, `make arm-perf-update` stores."
)
TOOLS = {
    "cc": "gcc",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "arm-linux-gnueabihf-gcc": "gcc-arm-linux-gnueabihf",
    "qemu-aarch64": "qemu-user",
    "qemu-arm": "qemu-user",
    arm_loops.MODELLER: "llvm-19",
}


def missing() -> list[str]:
    """Return the tools that are not here, with their Debian packages."""
    return [f"{t} (package {p})" for t, p in TOOLS.items() if shutil.which(t) is None]


def versions() -> dict[str, str]:
    """Return what the figures depend on: compilers and the modeller."""
    found = {}
    for tool in ("aarch64-linux-gnu-gcc", "arm-linux-gnueabihf-gcc", arm_loops.MODELLER):
        said = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True)
        number = re.search(r"\d+\.\d+\.\d+", said.stdout)
        found[tool] = number[0] if number else said.stdout.splitlines()[0]
    return found


def bounds() -> dict[str, dict[str, object]]:
    """Return the cores: whose model stands for them and the least cycles per multiply-add."""
    cores = [core for arch in arm_loops.ARCHITECTURES for core in arch.cores]
    return {c.name: {"model": c.model, "bound": c.bound, "note": c.note} for c in cores}


def measure() -> dict[str, Any]:
    """Build for all targets and return all figures."""
    loops: dict[str, dict[str, object]] = {}
    counts: dict[str, float] = {}
    targets = {target.name: target for target in TARGETS}
    for arch in arm_loops.ARCHITECTURES:
        target = targets[arch.name]
        counts.update(arm_counts.measure(target))
        for level in arch.levels:
            path = target.build / "obj" / "ukernel" / "gemm" / f"gemm_{level}.o"
            loops.update(arm_loops.measure_level(arch, level, path))
    return {
        "about": ABOUT,
        "tools": versions(),
        "cores": bounds(),
        "loops": loops,
        "instructions_per_kflop": counts,
    }


def flat(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return every compared figure under one name; less is better for all."""
    found = {
        f"{k}, instructions per kFLOP": v for k, v in figures["instructions_per_kflop"].items()
    }
    for name, loop in figures["loops"].items():
        for core, value in loop["cycles_per_multiply_add"].items():
            found[f"{name} on {core}, cycles per multiply-add"] = value
    return found


def faults(stored: Mapping[str, Any], measured: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is worse than stored, gone, or stores in a loop, in words."""
    for name, loop in measured["loops"].items():
        if loop["stores_in_all_tiles"]:
            yield f"{name}: {loop['stores_in_all_tiles']} stores in inner loops, 0 are allowed"
    before, now = flat(stored), flat(measured)
    for name, value in before.items():
        if name not in now:
            yield f"{name}: stored as {value:g}, not measured any more"
        elif now[name] > value * (1 + TOLERANCE):
            yield f"{name}: {now[name]:g}, stored is {value:g}, {TOLERANCE:.0%} more is allowed"
    for name in now.keys() - before.keys():
        yield f"{name}: {now[name]:g}, nothing stored: make arm-perf-update"


def report(stored: Mapping[str, Any], measured: Mapping[str, Any]) -> int:
    """Print what changed; return how much got worse."""
    found = list(faults(stored, measured))
    if stored["tools"] != measured["tools"]:
        print(f"tools: {measured['tools']}, figures were stored with {stored['tools']}")
    before, now = flat(stored), flat(measured)
    for name, value in now.items():
        if value < before.get(name, 0) * (1 - TOLERANCE):
            print(f"better: {name}: {value:g}, stored is {before[name]:g}: make arm-perf-update")
    for line in found:
        print(f"FAILED: {line}")
    print(f"arm-perf: {len(now)} figures, {len(found)} worse; model figures, not seconds")
    return len(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 when nothing got worse."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="store today's figures")
    parser.add_argument("--require", action="store_true", help="missing tools are a failure")
    options = parser.parse_args(arguments)
    absent = missing()
    if absent:
        print(f"arm-perf: skipped, not installed: {', '.join(absent)}")
        return 1 if options.require or options.update else 0
    measured = measure()
    if options.update:
        STORED.write_text(json.dumps(measured, indent=1) + "\n")
        print(f"stored {len(flat(measured))} figures in {STORED.relative_to(ROOT)}")
        return 0
    return 1 if report(json.loads(STORED.read_text()), measured) else 0


if __name__ == "__main__":
    sys.exit(main())
