"""`armtrain bench --profile`: where the time of a training step goes, beside roofs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from armtrain.cli.common import print_json

if TYPE_CHECKING:
    from armtrain.planfile.plan import Plan
    from armtrain.runtime.profile import Profile, Work
    from armtrain.runtime.roofs import Roofs

__all__ = ["print_profile"]

_COLUMNS = ("steps", "ms", "share", "GFLOP/s", "of roof", "GB/s", "of copy")


def print_profile(
    model: str, plan: Plan, repeat: int, threads: int, kernel_level: str | None, as_json: bool
) -> None:
    """Measure and print operations, and with `as_json` every step too.

    Parameters
    ----------
    model : str
        As the user named it.
    plan : Plan
    repeat, threads : int
        Training steps to measure; at most that many threads, 0 for all.
    kernel_level : str or None
    as_json : bool
    """
    from armtrain.runtime.profile import by_operation, profile_steps
    from armtrain.runtime.roofs import measure_roofs

    profile = profile_steps(plan, repeat, threads=threads, kernel_level=kernel_level)
    roofs = measure_roofs(profile.kernel_level)
    operations = by_operation(profile.works)
    if as_json:
        _print_json(model, plan, repeat, profile, roofs, operations)
        return
    print(
        f"{model}, batch {plan.batch_size}, {profile.kernel_level}, {profile.threads} thread(s), "
        f"median of {repeat}; roofs of a thread: {1e-9 * roofs.flops_per_second:.1f} GFLOP/s, "
        f"{1e-9 * roofs.bytes_per_second:.1f} GB/s"
    )
    print(f"{'operation':28s}" + "".join(f"{name:>10s}" for name in _COLUMNS))
    for work in operations:
        print(_line(work, profile, roofs))
    print(f"{'all':28s}{len(profile.works):10d}{1e3 * profile.seconds:10.3f}")


def _rates(work: Work, profile: Profile, roofs: Roofs) -> dict[str, float]:
    """Return share of the time and rates; of the roofs of all threads."""
    seconds = max(work.seconds, 1e-9)
    flops, nbytes = work.flops / seconds, work.nbytes / seconds
    return {
        "share": work.seconds / max(profile.seconds, 1e-9),
        "flops_per_second": flops,
        "flops_of_roof": flops / (roofs.flops_per_second * profile.threads),
        "bytes_per_second": nbytes,
        "bytes_of_copy": nbytes / roofs.bytes_per_second,
    }


def _line(work: Work, profile: Profile, roofs: Roofs) -> str:
    """Return a row; an operation without products has no FLOP/s."""
    rates = _rates(work, profile, roofs)
    product = ("-", "-")
    if work.flops:
        flops = 1e-9 * rates["flops_per_second"]
        product = (f"{flops:.1f}", f"{100 * rates['flops_of_roof']:.0f} %")
    cells = (
        str(work.steps),
        f"{1e3 * work.seconds:.3f}",
        f"{100 * rates['share']:.1f} %",
        *product,
        f"{1e-9 * rates['bytes_per_second']:.1f}",
        f"{100 * rates['bytes_of_copy']:.0f} %",
    )
    return f"{work.name:28s}" + "".join(f"{cell:>10s}" for cell in cells)


def _print_json(
    model: str,
    plan: Plan,
    repeat: int,
    profile: Profile,
    roofs: Roofs,
    operations: Iterable[Work],
) -> None:
    """Print all figures as one object."""

    def rows(works: Iterable[Work]) -> list[dict[str, Any]]:
        return [vars(work) | _rates(work, profile, roofs) for work in works]

    print_json(
        {
            "model": model,
            "batch_size": plan.batch_size,
            "repeat": repeat,
            "kernel_level": profile.kernel_level,
            "threads": profile.threads,
            "roofs": vars(roofs),
            "step_seconds": profile.seconds,
            "operations": rows(operations),
            "steps": rows(profile.works),
        }
    )
