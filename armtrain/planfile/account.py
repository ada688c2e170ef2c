"""Where the bytes of a plan go: sums by role, peaks, and what is live at the fullest step.

All figures by role are exact bytes; rounding up to the alignment is counted as padding.
"""

from __future__ import annotations

from typing import Any

from armtrain.ir.program import Program, Role
from armtrain.planfile.data import PlanData
from armtrain.schedule.lifetime import Lifetime, Lifetimes

__all__ = ["accounts", "layer_table", "live_at", "peak_step", "role_peak", "role_total"]

PARAMETER_ROLES = frozenset({Role.WEIGHT, Role.FROZEN, Role.BUFFER})
ACTIVATION_ROLES = frozenset({Role.ACTIVATION, Role.DERIVATIVE, Role.SAVED, Role.OUTPUT})
DATA_ROLES = frozenset({Role.INPUT, Role.TARGET})


def _live_bytes(lifetimes: Lifetimes, roles: frozenset[Role] | None, exact: bool) -> list[int]:
    """Return per step the live bytes of `roles` (None: all), exact or aligned."""
    change = [0] * (lifetimes.n_steps + 1)
    for item in lifetimes.items:
        if roles is None or item.role in roles:
            size = item.nbytes if exact else item.aligned_bytes
            change[item.first] += size
            change[item.last] -= size
    live, total = [], 0
    for step in range(lifetimes.n_steps):
        total += change[step]
        live.append(total)
    return live


def role_total(lifetimes: Lifetimes, roles: frozenset[Role]) -> int:
    """Return the exact bytes of all storages of `roles`."""
    return sum(item.nbytes for item in lifetimes.items if item.role in roles)


def role_peak(lifetimes: Lifetimes, roles: frozenset[Role]) -> int:
    """Return the most exact bytes of `roles` live at one step."""
    return max(_live_bytes(lifetimes, roles, exact=True), default=0)


def peak_step(lifetimes: Lifetimes) -> int:
    """Return the first step at which the most aligned bytes are live."""
    live = _live_bytes(lifetimes, None, exact=False)
    return live.index(max(live)) if live else 0


def live_at(lifetimes: Lifetimes, step: int) -> list[Lifetime]:
    """Return the storages live at `step`, largest first."""
    items = [i for i in lifetimes.items if i.first <= step < i.last]
    return sorted(items, key=lambda i: (-i.nbytes, i.storage))


def accounts(data: PlanData) -> dict[str, int]:
    """Return the figures by role, keyed as in `plan --json`."""
    lifetimes = data.lifetimes
    step = peak_step(lifetimes)
    filled = sum(item.nbytes for item in live_at(lifetimes, step))
    return {
        "activations_peak_bytes": role_peak(lifetimes, ACTIVATION_ROLES),
        "gradients_peak_bytes": role_peak(lifetimes, frozenset({Role.GRADIENT})),
        "input_bytes": role_peak(lifetimes, DATA_ROLES),
        "optimizer_bytes": role_total(lifetimes, frozenset({Role.STATE})),
        "padding_bytes": data.arena_bytes - filled,
        "peak_step": step,
        "stacks_bytes": role_total(lifetimes, frozenset({Role.STACK})),
        "weights_bytes": role_total(lifetimes, PARAMETER_ROLES),
        "workspace_bytes": role_peak(lifetimes, frozenset({Role.WORKSPACE})),
    }


def layer_table(program: Program) -> list[dict[str, Any]]:
    """Return per layer, in order of first use, its operations and its parameter bytes."""
    table: dict[str, dict[str, Any]] = {}
    seen: set[int] = set()
    for step in program.steps:
        row = table.setdefault(step.layer, {"name": step.layer, "steps": 0, "parameter_bytes": 0})
        row["steps"] += 1
        for operand in step.operands:
            if operand is not None and operand not in seen:
                seen.add(operand)
                tensor = program.tensors[operand]
                if tensor.role in PARAMETER_ROLES:
                    row["parameter_bytes"] += tensor.nbytes
    return list(table.values())
