"""`armtrain doctor`: what this machine is, which kernels it gets, and what hinders training."""

from __future__ import annotations

import argparse
import os
import platform
from dataclasses import asdict
from typing import Any

from armtrain import __version__
from armtrain.cli.common import Subparsers, print_json
from armtrain.dtypes import format_bytes
from armtrain.runtime.machine import Hindrance, Machine

__all__ = ["add_parser", "feature_names", "run"]

_FEATURES = {0: "sse2", 1: "avx2+fma", 2: "avx512", 8: "neon", 9: "vfpv4"}
_CAP = "ARMTRAIN_CPU"


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add the verb."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "doctor", help="what this machine is and which kernels it gets"
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Report; hindrances do not fail the command."""
    from armtrain.runtime.engine import engine_module
    from armtrain.runtime.machine import hindrances, read_machine

    engine = engine_module()
    machine = read_machine()
    levels = list(engine.kernel_levels())
    level = levels[-1]
    found = hindrances(machine, level)
    facts = {
        "version": __version__,
        "engine_version": engine.version(),
        "python_version": platform.python_version(),
        "cpu_features": feature_names(engine.cpu_features()),
        "kernel_levels": levels,
        "kernel_level": level,
        "kernel_level_reason": _reason(levels),
        "usable_cpus": engine.usable_cpus(),
        **asdict(machine),
    }
    if args.json:
        print_json(facts | {"warnings": [asdict(h) for h in found]})
    else:
        _print(facts, machine, found)
    return 0


def feature_names(bits: int) -> list[str]:
    """Return the names of the feature bits of kernels/core/cpu.h."""
    return [_FEATURES.get(i, f"bit {i}") for i in range(bits.bit_length()) if bits >> i & 1]


def _reason(levels: list[str]) -> str:
    """Say why the last level is used."""
    cap = os.environ.get(_CAP)
    if cap:
        return f"the fastest of this processor up to {_CAP}={cap} of the environment"
    if len(levels) == 1:
        return "the processor has the features of no faster level"
    return f"the fastest whose features the processor has; also possible: {', '.join(levels[:-1])}"


def _size(value: int | None) -> str:
    """Return bytes for people."""
    return "unknown" if value is None else format_bytes(value)


def _print(facts: dict[str, Any], m: Machine, found: list[Hindrance]) -> None:
    """Print the report for people."""
    limit = "no limit" if m.cgroup_limit_bytes is None else _size(m.cgroup_limit_bytes)
    rows = [
        ("armtrain", f"{facts['version']} (Python {facts['python_version']})"),
        ("machine", m.model or "unknown"),
        ("kernel", f"{m.kernel_release}, {m.architecture}, pages of {m.page_bytes} B"),
        ("userland", f"{m.userland_bits}-bit"),
        ("processor features", " ".join(facts["cpu_features"]) or "none that kernels use"),
        ("kernel level", f"{facts['kernel_level']}: {facts['kernel_level_reason']}"),
        ("processors", f"{facts['usable_cpus']} usable of {m.cpus_online}"),
        ("memory available", f"{_size(m.memory_available_bytes)} of {_size(m.memory_total_bytes)}"),
        ("swap of the system", _size(m.swap_total_bytes)),
        ("control group limit", limit),
        ("storage here", f"{_size(m.storage_free_bytes)} free on {m.filesystem}, {m.storage_path}"),
    ]
    for label, value in rows:
        print(f"{label:20s} {value}")
    print()
    for hindrance in found:
        print(f"warning: {hindrance.problem}\n         {hindrance.remedy}")
    if not found:
        print("no hindrance found")
