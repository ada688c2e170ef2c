"""What must hold between the entries of a profile, beyond the type and range of each."""

from __future__ import annotations

from collections.abc import Sequence

from armtrain.board.cores import load_cores
from armtrain.board.schema import shown
from armtrain.board.sections import Cluster, Memory, Storage
from armtrain.errors import PlanError
from armtrain.limits import MAX_THREADS

__all__ = ["check_clusters", "check_memory", "check_name", "check_storage", "check_threads"]

_LONGEST = 100


def check_name(text: str, where: str) -> None:
    """Refuse a name that is empty, too long, or cannot be printed: plans and tables show it."""
    if not text.strip() or len(text) > _LONGEST or not text.isprintable():
        raise PlanError(
            f"{where} must be 1 to {_LONGEST} printable characters, is {shown(text)} "
            f"with {len(text)}"
        )


def check_clusters(clusters: Sequence[Cluster], where: str) -> None:
    """Refuse cores that are not known and processor numbers that repeat or leave gaps."""
    known = load_cores()
    for cluster in clusters:
        if cluster.core not in known:
            raise PlanError(
                f"{where}: there is no core '{cluster.core}': known are {', '.join(known)}"
            )
    cpus = sorted(cpu for c in clusters for cpu in c.cpus)
    if cpus != list(range(len(cpus))) or not all(c.cpus for c in clusters):
        raise PlanError(
            f"{where}: clusters must number their cpus from 0 without gaps, have {shown(cpus)}"
        )


def check_threads(threads: int, cores: int, where: str) -> None:
    """Refuse more threads than an engine or these cores can run; `cores` is 0 when unknown."""
    most = min(MAX_THREADS, cores or MAX_THREADS)
    if not 1 <= threads <= most:
        raise PlanError(f"{where}: {shown(threads)} threads, 1 to {most} are possible")


def check_memory(memory: Memory | None, where: str) -> None:
    """Refuse a system that uses the whole memory of the smallest variant."""
    if memory is None:
        return
    smallest, used = min(memory.ram_mib.values), memory.os_use_mib.value
    if used >= smallest:
        raise PlanError(
            f"{where}: 'memory': os_use_mib is {used:g}, which must be below the {smallest:g} MiB "
            "of the smallest ram_mib"
        )


def check_storage(storage: Sequence[Storage], where: str) -> None:
    """Refuse media without a name of their own, or faster than their bus."""
    seen: set[str] = set()
    for number, medium in enumerate(storage):
        place = f"{where}: storage[{number}]"
        check_name(medium.id, f"{place}: 'id'")
        if medium.id in seen:
            raise PlanError(f"{place}: there is another medium '{medium.id}': name them apart")
        seen.add(medium.id)
        bus = medium.bus_mb_s.value
        rates = {"read_mb_s": medium.read_mb_s.value, "write_mb_s": medium.write_mb_s.value}
        for name, rate in rates.items():
            if rate > bus:
                raise PlanError(f"{place}: {name} is {rate:g}, but bus_mb_s only {bus:g}")
