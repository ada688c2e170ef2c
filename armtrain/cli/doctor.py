"""`armtrain doctor`: what this machine is, which kernels it gets, and what hinders training."""

from __future__ import annotations

import argparse
import os
import platform
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armtrain import __version__
from armtrain.cli.common import Subparsers, UsageError, print_json
from armtrain.cli.parser import Parser
from armtrain.dtypes import format_bytes

if TYPE_CHECKING:
    from armtrain.board.detect import Detection
    from armtrain.board.identity import Identity
    from armtrain.board.isa import VectorUnits
    from armtrain.runtime.health import Health
    from armtrain.runtime.machine import Hindrance, Machine

__all__ = ["Findings", "Kernels", "add_parser", "examine", "feature_names", "run"]

_FEATURES = {0: "sse2", 1: "avx2+fma", 2: "avx512", 8: "neon", 9: "vfpv4"}
_CAP = "ARMTRAIN_CPU"
_DISKS = ("usb", "sata")


@dataclass(frozen=True)
class Kernels:
    """Kernel levels that are possible, best last, the one that is used, and why."""

    level: str
    levels: list[str]
    reason: str
    cpu_features: list[str]


@dataclass(frozen=True)
class Findings:
    """Everything that was read about a machine."""

    machine: Machine
    health: Health
    identity: Identity
    detection: Detection
    units: VectorUnits
    kernels: Kernels
    hindrances: list[Hindrance]


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser(
        "doctor", help="what this machine is and which kernels it gets"
    )
    parser.add_argument(
        "--root", metavar="DIR", help="look at a folder written by scripts/capture_board.py instead"
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Report; hindrances do not fail the command."""
    from armtrain.board.identity import CAPTURE, is_captured

    root = Path(args.root or "/")
    if args.root and not is_captured(root):
        raise UsageError(f"--root: '{root}' is no captured machine: it has no {CAPTURE}")
    findings = examine(root, None if args.root else _engine_kernels())
    facts = {"version": __version__, "python_version": platform.python_version()}
    facts |= {} if args.root else _engine_facts()
    if args.json:
        print_json(facts | _facts(findings))
    else:
        _print(facts, findings)
    return 0


def _engine_facts() -> dict[str, Any]:
    """Return what only the engine of this machine knows."""
    from armtrain.runtime.engine import engine_module

    engine = engine_module()
    return {"engine_version": engine.version(), "usable_cpus": engine.usable_cpus()}


def _engine_kernels() -> Kernels:
    """Return the kernels that the engine chose here."""
    from armtrain.runtime.engine import engine_module

    engine = engine_module()
    levels = list(engine.kernel_levels())
    return Kernels(levels[-1], levels, _reason(levels), feature_names(engine.cpu_features()))


def examine(root: Path, kernels: Kernels | None = None) -> Findings:
    """Return everything about the machine whose files are below `root`.

    Parameters
    ----------
    root : Path
        '/' or a captured machine.
    kernels : Kernels, optional
        What the engine chose; by default what it would choose for the captured processor.
    """
    from armtrain.board.detect import match
    from armtrain.board.identity import read_identity, read_system
    from armtrain.board.isa import vector_units
    from armtrain.runtime.health import health_hindrances, read_health
    from armtrain.runtime.machine import UNLISTED, hindrances, kernel_hindrances, read_machine

    identity, system = read_identity(root), read_system(root)
    detection = match(identity, system)
    units = vector_units(detection.architecture, identity.features, system.hwcap)
    cap = os.environ.get(_CAP, "") if kernels else ""
    if kernels is None:
        levels = ["c"] if units.level == "c" else ["c", units.level]
        kernels = Kernels(units.level, levels, units.reason, list(identity.features))
    machine = read_machine(root)
    health = read_health(root, machine.storage_path)
    found = kernel_hindrances(kernels.level, kernels.levels, neon=units.neon, cap=cap)
    found += [] if identity.processors else [UNLISTED]
    found += hindrances(machine)
    found += health_hindrances(health, detection, arm=bool(identity.parts))
    return Findings(machine, health, identity, detection, units, kernels, found)


def _facts(f: Findings) -> dict[str, Any]:
    """Return the report as JSON values."""
    m, health, profile = f.machine, f.health, f.detection.board
    return {
        **asdict(m),
        "cpu_features": f.kernels.cpu_features,
        "kernel_level": f.kernels.level,
        "kernel_levels": f.kernels.levels,
        "kernel_level_reason": f.kernels.reason,
        "board": {
            "id": profile.id,
            "name": profile.name,
            "model": f.detection.model or None,
            "exact": f.detection.exact,
            "reason": f.detection.reason,
        },
        "cores": _cores(f),
        "isa": _isa(f),
        "wheel_tag": f.detection.architecture,
        "kernel_bits": m.kernel_bits,
        "page_size": m.page_bytes,
        "kernels": {
            "level": f.kernels.level,
            "levels": f.kernels.levels,
            "reason": f.kernels.reason,
            "features": f.kernels.cpu_features,
        },
        "memory": _memory(f),
        "storage": {
            "path": m.storage_path,
            "filesystem": m.filesystem,
            "free_bytes": m.storage_free_bytes,
            "device": health.storage_device,
            "kind": health.storage_kind,
            "media": _media(f),
        },
        "clock": {
            "governors": list(health.governors),
            "mhz": health.clock_mhz,
            "limit_mhz": health.clock_limit_mhz,
        },
        "temperature_c": health.temperature_c,
        "throttling": None if health.throttled is None else asdict(health.throttled),
        "warnings": [asdict(h) for h in f.hindrances],
    }


def _memory(f: Findings) -> dict[str, int | None]:
    """Return the bytes of memory, and what zram and control groups do to them."""
    return {
        "total_bytes": f.machine.memory_total_bytes,
        "available_bytes": f.machine.memory_available_bytes,
        "usable_bytes": f.machine.memory_usable_bytes,
        "swap_bytes": f.machine.swap_total_bytes,
        "zram_bytes": f.health.zram_bytes,
        "cgroup_limit_bytes": f.machine.cgroup_limit_bytes,
        "cgroup_used_bytes": f.machine.cgroup_used_bytes,
    }


def _cores(f: Findings) -> list[dict[str, Any]]:
    """Return runs of equal processors, core and numbers; none when they are not listed."""
    from armtrain.board.cores import core_of

    runs = []
    numbered = enumerate(f.identity.parts)
    for (implementer, part), run_of in groupby(numbered, key=lambda pair: pair[1]):
        runs.append(
            {
                "core": core_of(implementer, part) or f"0x{implementer:02x}/0x{part:03x}",
                "cpus": [cpu for cpu, _ in run_of],
            }
        )
    online = f.machine.cpus_online
    if runs or online is None:
        return runs
    return [{"core": f.machine.model or "unknown", "cpus": list(range(online))}]


def _media(f: Findings) -> list[str]:
    """Return the media of the board's profile that the storage here may be."""
    kind = f.health.storage_kind
    kinds = _DISKS if kind == "disk" else (kind,)
    return [s.id for s in f.detection.board.storage if s.kind in kinds]


def _isa(f: Findings) -> str:
    """Return the instruction set of the userland; on ARM with what vector units it may use."""
    if f.detection.architecture not in ("aarch64", "armv7l", "armv6l"):
        return f.detection.architecture
    extra = ("+neon" if f.units.neon else "") + ("+fma" if f.units.fused else "")
    return f.detection.architecture + extra


def feature_names(bits: int) -> list[str]:
    """Return the names of the feature bits of kernels/core/cpu.h."""
    return [_FEATURES.get(i, f"bit {i}") for i in range(bits.bit_length()) if bits >> i & 1]


def _reason(levels: list[str]) -> str:
    """Say why the last level is used."""
    cap = os.environ.get(_CAP)
    if cap and cap not in levels:
        return f"the fastest of this processor, but {_CAP}={cap} of the environment is refused"
    if cap:
        return f"set by {_CAP}={cap} of the environment"
    if len(levels) == 1:
        return "the processor has the features of no faster level"
    return f"the fastest whose features the processor has; also possible: {', '.join(levels[:-1])}"


def _size(value: int | None) -> str:
    """Return bytes for people."""
    return "unknown" if value is None else format_bytes(value)


def _print(facts: dict[str, Any], f: Findings) -> None:
    """Print the report for people."""
    m, found = f.machine, f.hindrances
    usable = facts.get("usable_cpus", m.cpus_usable)
    pages = f"pages of {m.page_bytes} B"
    cores = ", ".join(f"{len(run['cpus'])} x {run['core']}" for run in _cores(f)) or "unknown"
    online = "" if m.cpus_online is None else f" of {m.cpus_online}"
    rows = [
        ("armtrain", f"{facts['version']} (Python {facts['python_version']})"),
        ("machine", m.model or "unknown"),
        ("board profile", f"{f.detection.board.id}: {f.detection.reason}"),
        ("cores", cores),
        ("kernel", f"{m.kernel_release}, {m.kernel_bits}-bit ({m.architecture}), {pages}"),
        ("userland", f"{m.userland_bits}-bit, {_isa(f)}"),
        ("processor features", " ".join(f.kernels.cpu_features) or "none that kernels use"),
        ("kernel level", f"{f.kernels.level}: {f.kernels.reason}"),
        ("processors", f"{usable} usable{online}"),
        ("memory available", f"{_size(m.memory_available_bytes)} of {_size(m.memory_total_bytes)}"),
        ("swap of the system", _swap(f)),
        ("control group limit", _group(m)),
        ("memory for training", _size(m.memory_usable_bytes)),
        ("storage here", _storage(f)),
        ("clock", _clock(f.health)),
        ("throttling", _throttling(f.health)),
    ]
    for label, value in rows:
        print(f"{label:20s} {value}")
    print()
    for hindrance in found:
        print(f"warning: {hindrance.problem}\n         {hindrance.remedy}")
    if not found:
        print("no hindrance found")


def _swap(f: Findings) -> str:
    """Return the swap of the system, and how much of it is compressed memory."""
    zram = f.health.zram_bytes
    return _size(f.machine.swap_total_bytes) + (f", {_size(zram)} of it zram" if zram else "")


def _group(m: Machine) -> str:
    """Return the limit of the control group that leaves least and what is used of it."""
    if m.cgroup_limit_bytes is None:
        return "no limit"
    return f"{_size(m.cgroup_limit_bytes)}, {_size(m.cgroup_used_bytes)} of it in use"


def _storage(f: Findings) -> str:
    """Return where files go."""
    m = f.machine
    if m.storage_free_bytes is None:
        return "unknown"
    where = f"{_size(m.storage_free_bytes)} free on {m.filesystem}, {m.storage_path}"
    return f"{where} ({f.health.storage_device}, {f.health.storage_kind})"


def _clock(health: Health) -> str:
    """Return clocks, governor and heat."""
    now = "unknown" if health.clock_mhz is None else f"{health.clock_mhz:.0f} MHz"
    limit = "" if health.clock_limit_mhz is None else f" of {health.clock_limit_mhz:.0f} MHz"
    heat = "" if health.temperature_c is None else f", {health.temperature_c:.1f} degrees C"
    return f"{now}{limit}, governor {' '.join(health.governors) or 'unknown'}{heat}"


def _throttling(health: Health) -> str:
    """Return the throttling word in words, now and since the start apart."""
    if health.throttled is None:
        return "unknown"
    now = ", ".join(health.throttled.now) or "nothing"
    earlier = ", ".join(health.throttled.since_boot) or "nothing"
    return f"now: {now}; since the start: {earlier} (0x{health.throttled.word:x})"
