"""Instructions that ARM kernels execute, counted by the user-mode emulator.

A count is exact for one compiler and repeats on every host. It is no time: instructions differ in
what they cost, and caches are not in it.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from scripts.emulate import ROOT, Target

# A processor with every kernel level of its architecture, and the emulator that takes plugins.
MODELS = {"aarch64": "cortex-a72", "armv7": "cortex-a15"}
EMULATORS = {"aarch64": "qemu-aarch64", "armv7": "qemu-arm"}
# Runs whose difference is counted: not the start, and little of what varies with addresses.
FEW, MORE = 2, 22


def build(target: Target, folder: Path) -> tuple[Path, Path]:
    """Return the counted program and the counting plugin, built."""
    program = target.build / "tests" / "count_kernels"
    plugin = folder / "count_plugin.so"
    target.make(str(program.relative_to(ROOT)))
    source = ROOT / "tests" / "c" / "count_plugin.c"
    command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(plugin), str(source)]
    subprocess.run(command, check=True)
    return program, plugin


def executed(target: Target, program: Path, plugin: Path, *arguments: str) -> int:
    """Return the instructions of one run of a program."""
    result = plugin.parent / "count"
    command = [EMULATORS[target.name], "-cpu", MODELS[target.name]]
    option = f"{plugin},out={result}"
    subprocess.run([*command, "-plugin", option, str(program), *arguments], check=True)
    return int(result.read_text())


def measure(target: Target) -> dict[str, float]:
    """Return instructions per thousand floating-point operations, by level and operation."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        program, plugin = build(target, Path(name))
        command = [EMULATORS[target.name], "-cpu", MODELS[target.name], str(program)]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            level, case, work = line.split()
            few, more = (
                executed(target, program, plugin, level, case, str(times)) for times in (FEW, MORE)
            )
            per_run = (more - few) / (MORE - FEW)
            found[f"{target.name} {level} {case}"] = round(per_run / float(work) * 1000, 1)
    return found
