"""What this machine is: facts from the kernel and what they mean for training.

Every reader takes the root of the file system, so that captured machines can be replayed.
A fact that the kernel does not offer is None, never a guess.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from armtrain.board.identity import decimal, is_captured, read_identity, read_system
from armtrain.board.identity import read_text as _text

__all__ = [
    "UNLISTED",
    "Hindrance",
    "Machine",
    "hindrances",
    "kernel_hindrances",
    "read_machine",
]

_UNLIMITED = 1 << 60
_SPARED_FILE_BYTES = 4 << 20
_FILE_PAGES_V1 = ("total_active_file", "total_inactive_file", "total_mapped_file")
_FILE_PAGES_V2 = ("active_file", "inactive_file", "file_mapped")
_LOW_BYTES = 64 << 20
_64_BIT = ("aarch64", "armv8", "x86_64")


@dataclass(frozen=True)
class Machine:
    """Facts about a machine.

    Attributes
    ----------
    model : str or None
        Name of the board or processor.
    architecture : str
        Machine name of the kernel.
    kernel_release : str
    userland_bits : int
        32 or 64, of this Python.
    page_bytes : int
    cpus_online : int or None
        All processors; None for a captured machine that does not list them.
    cpus_usable : int
        Those that this process may use.
    memory_total_bytes, memory_available_bytes, swap_total_bytes : int or None
    cgroup_limit_bytes, cgroup_used_bytes : int or None
        Limit of the control group that leaves this process the least memory, and what that group
        uses besides files that can be dropped from memory; None without a limit.
    storage_path, filesystem : str
        Current directory and the file system that holds it, 'unknown' when it was deleted.
    storage_free_bytes : int or None
    command_line : str
        Of the kernel.
    """

    model: str | None
    architecture: str
    kernel_release: str
    userland_bits: int
    page_bytes: int
    cpus_online: int | None
    cpus_usable: int
    memory_total_bytes: int | None
    memory_available_bytes: int | None
    swap_total_bytes: int | None
    cgroup_limit_bytes: int | None
    cgroup_used_bytes: int | None
    storage_path: str
    filesystem: str
    storage_free_bytes: int | None
    command_line: str

    @property
    def kernel_bits(self) -> int:
        """32 or 64, of the kernel; programs may be 32-bit on a 64-bit one."""
        return 64 if self.architecture.startswith(_64_BIT) else 32

    @property
    def memory_usable_bytes(self) -> int | None:
        """Memory available to this process: what is free, or what its control groups leave."""
        bounds = (self.memory_available_bytes, self.cgroup_left_bytes)
        return min((b for b in bounds if b is not None), default=None)

    @property
    def cgroup_left_bytes(self) -> int | None:
        """What the control groups leave this process, None without a limit."""
        if self.cgroup_limit_bytes is None:
            return None
        return max(0, self.cgroup_limit_bytes - (self.cgroup_used_bytes or 0))


@dataclass(frozen=True)
class Hindrance:
    """A fact that hinders training, and what to do about it."""

    problem: str
    remedy: str


UNLISTED = Hindrance(
    "/proc/cpuinfo lists no processor: which cores this machine has is unknown",
    "make it readable (in a container, mount /proc), or name the board: plan with --board ID",
)
"""The hindrance of a machine that does not list its processors."""


def read_machine(root: Path = Path("/"), directory: str | None = None) -> Machine:
    """Return the facts of this machine, files read below `root`."""
    system = read_system(root, directory)
    memory = meminfo(_text(root / "proc/meminfo") or "")
    limit, used = cgroup_memory(root)
    captured = is_captured(root)
    online = read_identity(root).processors if captured else os.cpu_count()
    path = system.storage_path
    return Machine(
        model=_model(root, captured),
        architecture=system.machine,
        kernel_release=system.release,
        userland_bits=system.userland_bits,
        page_bytes=system.page_bytes,
        cpus_online=online or None,
        cpus_usable=system.usable_cpus,
        memory_total_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        swap_total_bytes=memory.get("SwapTotal"),
        cgroup_limit_bytes=limit,
        cgroup_used_bytes=used,
        storage_path=path,
        filesystem=filesystem_of(path, _text(root / "proc/mounts") or ""),
        storage_free_bytes=system.storage_free_bytes,
        command_line=(_text(root / "proc/cmdline") or "").strip(),
    )


def _model(root: Path, captured: bool) -> str | None:
    """Return the board's name, or the first model name of the processor list."""
    for model in read_identity(root).models:
        return model
    for line in (_text(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() == "model name":
            return value.strip()
    return None if captured else platform.processor() or None


def meminfo(text: str) -> dict[str, int]:
    """Return the bytes of a /proc/meminfo text by key."""
    found = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        words = value.split()
        number = decimal(words[0]) if words else None
        if number is not None:
            found[key] = number * (1024 if words[1:] == ["kB"] else 1)
    return found


def cgroup_memory(root: Path) -> tuple[int | None, int | None]:
    """Return (limit, use) in bytes of the memory control group that leaves this process least.

    An outer group with the larger limit can be the fuller one: other processes use it too.
    """
    base = root / "sys/fs/cgroup"
    names = ("memory.max", "memory.current")
    folder: Path | None = None
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if "memory" in controllers.split(","):
            base = base / "memory"
            folder = base / path.lstrip("/")
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
            break
        if number == "0":
            folder = base / path.lstrip("/")
    groups: list[tuple[int, int | None]] = []
    while folder is not None:
        limit, used = (_number(folder / name) for name in names)
        if limit is not None:
            groups.append((limit, None if used is None else max(0, used - _file_cache(folder))))
        folder = folder.parent if folder != base and base in folder.parents else None
    return min(groups, key=lambda group: group[0] - (group[1] or 0), default=(None, None))


def _file_cache(folder: Path) -> int:
    """Return the bytes of files that a control group keeps in memory and can drop.

    Pages that programs have mapped are needed back at once and do not count; of the others half
    stay, 4 MiB at most, as the kernel's MemAvailable has it.
    """
    rows = (line.split() for line in (_text(folder / "memory.stat") or "").splitlines())
    found = {row[0]: decimal(row[1]) or 0 for row in rows if len(row) == 2}
    first = "total_active_file" in found
    *kinds, mapped = _FILE_PAGES_V1 if first else _FILE_PAGES_V2
    loose = max(0, sum(found.get(kind, 0) for kind in kinds) - found.get(mapped, 0))
    return loose - min(loose // 2, _SPARED_FILE_BYTES)


def _number(path: Path) -> int | None:
    """Return the number in a control file; None for 'max' and huge values."""
    number = decimal((_text(path) or "").strip())
    return None if number is None or number >= _UNLIMITED else number


def filesystem_of(path: str, mounts: str) -> str:
    """Return the file system type of the mount that holds `path`, 'unknown' without one."""
    best, kind = "", "unknown"
    for line in mounts.splitlines():
        words = line.split()
        if len(words) < 3:
            continue
        point = words[1].replace("\\040", " ").rstrip("/")
        if (path + "/").startswith(point + "/") and len(point) >= len(best):
            best, kind = point, words[2]
    return kind


def hindrances(machine: Machine) -> list[Hindrance]:
    """Return what hinders training here, the kernels apart."""
    rules = [*_rules(machine), *_install_rules(machine)]
    return [Hindrance(problem, remedy) for found, problem, remedy in rules if found]


def kernel_hindrances(level: str, levels: list[str], *, neon: bool, cap: str) -> list[Hindrance]:
    """Return what is wrong with the kernels that the engine chose.

    Parameters
    ----------
    level : str
        The level in use.
    levels : list of str
        Those that are possible here.
    neon : bool
        Whether the processor has NEON.
    cap : str
        Level that the environment asks for, '' for none.
    """
    plain = level == "c"
    rules = [
        (
            cap not in ("", *levels),
            f"ARMTRAIN_CPU={cap} of the environment is no kernel level of this processor: no plan "
            "can be opened",
            f"unset the variable, or set it to one of: {', '.join(levels)}",
        ),
        (
            plain and cap == "c",
            "ARMTRAIN_CPU=c of the environment allows the plain C kernels only",
            "unset the variable: the kernels for this processor's vector unit are several times "
            "faster",
        ),
        (
            plain and cap != "c" and neon,
            "the processor has NEON, but the engine chose the plain C kernels",
            "this build has no NEON kernels or cannot see the vector unit: install the build for "
            "this architecture, or build it here with make ext; training works but is slow",
        ),
        (
            plain and cap != "c" and not neon,
            "only the plain C kernels run on this processor",
            "training works but is slow; on ARM a processor with NEON is several times faster",
        ),
    ]
    return [Hindrance(problem, remedy) for found, problem, remedy in rules if found]


def _without_memory_groups(words: list[str]) -> bool:
    """Say whether memory control groups are off; Raspberry Pi kernels let `enable` win."""
    return "cgroup_disable=memory" in words and "cgroup_enable=memory" not in words


def _rules(m: Machine) -> list[tuple[bool, str, str]]:
    """Return (does it apply, problem, remedy) of every rule."""
    free = _UNLIMITED if m.memory_available_bytes is None else m.memory_available_bytes
    usable = _UNLIMITED if m.memory_usable_bytes is None else m.memory_usable_bytes
    return [
        (
            m.userland_bits < m.kernel_bits,
            f"the kernel is 64-bit ({m.architecture}), this Python is 32-bit",
            "install a 64-bit system image: 64-bit NEON code is faster and addresses more memory",
        ),
        (
            usable < _LOW_BYTES,
            f"only {usable} B of memory are available to this process",
            "end other programs, or use armtrain-run, which needs no Python",
        ),
        (
            usable < free,
            f"a control group limits this process to {m.cgroup_limit_bytes} B, of which "
            f"{m.cgroup_left_bytes} B are left",
            "raise the limit (memory.max, MemoryMax= of the service, --memory of the container), "
            "or plan with --budget below what is left",
        ),
        (
            _without_memory_groups(m.command_line.split()),
            "the kernel was started with cgroup_disable=memory: memory limits are not enforced",
            "add cgroup_enable=memory cgroup_memory=1 to the kernel command line and restart",
        ),
        (
            m.storage_free_bytes is None,
            "the current directory cannot be read: it may have been deleted",
            "change to a directory that exists: files are written to the current one by default",
        ),
        (
            m.storage_free_bytes is not None and m.storage_free_bytes < _LOW_BYTES,
            f"{m.storage_path} has only {m.storage_free_bytes} B free",
            "free some space, or keep checkpoints in another directory",
        ),
        (
            m.filesystem in ("vfat", "exfat", "msdos"),
            f"{m.storage_path} is on {m.filesystem}, which loses files at a power failure",
            "keep checkpoints on ext4 or another journalling file system",
        ),
        (
            m.filesystem in ("tmpfs", "ramfs"),
            f"{m.storage_path} is in memory ({m.filesystem}): files there use memory and vanish",
            "keep checkpoints and data on a disk or card",
        ),
    ]


def _install_rules(m: Machine) -> list[tuple[bool, str, str]]:
    """Return the rules of what hinders the next installation, as _rules does."""
    return [
        (
            m.architecture == "armv8l" and m.userland_bits == 32,
            "the machine calls itself armv8l: pip before 24.1 (Debian 12 has 23.0.1) installs no "
            "wheel for armv7l here",
            "put `setarch linux64` in front of pip, or bring the virtual environment's pip up to "
            "24.1: docs/cross.md",
        ),
    ]
