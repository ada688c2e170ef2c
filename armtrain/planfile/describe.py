"""A plan for people and tools: the table that `print(plan)` shows, and the lists of `inspect`."""

from __future__ import annotations

from typing import Any

from armtrain.dtypes import format_bytes
from armtrain.ir.ops import OPS
from armtrain.planfile.account import accounts, live_at, peak_step
from armtrain.planfile.data import PlanData
from armtrain.planfile.groups import group_lines, param_groups
from armtrain.planfile.predict import extra_work, step_seconds
from armtrain.planfile.tables import table_lines
from armtrain.schedule.lifetime import Lifetime

__all__ = ["inspect_dict", "peak_items", "summary_text"]

_PEAK_ROWS = 10

_ROLE_ROWS = (
    ("weights and buffers", "weights_bytes"),
    ("optimizer state", "optimizer_bytes"),
    ("gradients (peak)", "gradients_peak_bytes"),
    ("activations (peak)", "activations_peak_bytes"),
    ("workspace (largest)", "workspace_bytes"),
    ("batch of data", "input_bytes"),
    ("thread stacks", "stacks_bytes"),
    ("padding (at the peak)", "padding_bytes"),
)


def inspect_dict(data: PlanData) -> dict[str, Any]:
    """Return `param_groups`, `tensors` and `steps` as JSON-ready lists."""
    place = {
        item.storage: (offset, item)
        for item, offset in zip(data.lifetimes.items, data.offsets, strict=True)
    }
    tensors = []
    for t in data.program.tensors:
        offset, item = place[t.storage]
        tensors.append(
            {
                "name": t.name,
                "role": t.role.name.lower(),
                "dtype": t.dtype.name.lower(),
                "shape": list(t.layout.shape),
                "bytes": t.nbytes,
                "offset": offset,
                "first": item.first,
                "last": item.last,
                "storage": t.storage,
            }
        )
    groups = [group.to_json_dict() for group in param_groups(data.program)]
    return {"param_groups": groups, "tensors": tensors, "steps": _steps(data)}


def _steps(data: PlanData) -> list[dict[str, Any]]:
    """Return the steps with their operands by name."""
    program = data.program
    return [
        {
            "index": index,
            "phase": step.phase.name.lower(),
            "op": step.op.name.lower(),
            "kind": step.kind,
            "layer": step.layer,
            "operands": {
                slot.name: program.tensors[operand].name
                for slot, operand in zip(OPS[step.op].operands, step.operands, strict=True)
                if operand is not None
            },
            "attrs": {
                slot.name: value
                for slot, value in zip(OPS[step.op].slots(len(step.attrs)), step.attrs, strict=True)
            },
        }
        for index, step in enumerate(program.steps)
    ]


def storage_name(data: PlanData, item: Lifetime) -> str:
    """Return the names of all tensors of a storage."""
    return " = ".join(data.program.tensors[t].name for t in item.tensors)


def peak_items(data: PlanData, limit: int = _PEAK_ROWS) -> list[tuple[str, Lifetime]]:
    """Return (names, storage) of the largest storages live at the fullest step."""
    live = live_at(data.lifetimes, peak_step(data.lifetimes))
    return [(storage_name(data, item), item) for item in live[:limit]]


def _bytes_row(label: str, value: int) -> str:
    """Return one aligned row of a label and bytes."""
    return f"  {label:24s} {value:>15,d} B  {format_bytes(value):>12s}"


def _head_lines(data: PlanData) -> list[str]:
    """Return what was planned."""
    program = data.program
    shape = "x".join(str(d) for d in program.input_shape)
    medium = "" if data.storage is None else f", storage {data.storage.id}"
    limits = (("norm", program.clip_norm), ("value", program.clip_value))
    clip = "".join(f", gradients clipped to {kind} {x:g}" for kind, x in limits if x is not None)
    return [
        f"armtrain plan: input {shape}, batch {program.batch_size}, {program.threads} thread(s), "
        f"board {program.board}{medium}",
        f"  {program.loss}, {program.optimizer}{clip}",
        *group_lines(program),
        *table_lines(program),
        "",
    ]


def _bound_lines(data: PlanData) -> list[str]:
    """Return the arena, its bounds and the budget."""
    ratio = data.arena_bytes / max(1, data.proved_minimum_bytes)
    lines = [
        _bytes_row("arena", data.arena_bytes),
        _bytes_row("lower bound", data.lower_bound_bytes),
        _bytes_row("proved minimum", data.proved_minimum_bytes)
        + f"  arena / proved minimum {ratio:.4f}",
    ]
    if data.budget_bytes is not None:
        lines.append(_bytes_row("budget", data.budget_bytes))
    return [*lines, *_work_lines(data), ""]


def _work_lines(data: PlanData) -> list[str]:
    """Return what is computed twice for the arena's sake, and how long a step should take."""
    lines, (ops, fraction) = [], extra_work(data.program)
    if ops:
        lines.append(f"  {'made again, not kept':24s} {ops:>15,d} ops {fraction:>10.2%} more work")
    if data.rates is not None:
        seconds = step_seconds(data.program, data.rates)
        lines.append(f"  {'seconds of a step':24s} {seconds:>15.4g} s  by {data.rates.basis} rates")
    return lines


def _peak_lines(data: PlanData) -> list[str]:
    """Return the largest storages at the fullest step."""
    index = peak_step(data.lifetimes)
    step = data.program.steps[index]
    lines = [
        "",
        f"largest at the fullest step {index} ({step.phase.name.lower()}, {step.layer} "
        f"{step.op.name.lower()}):",
    ]
    for name, item in peak_items(data):
        lines.append(
            f"  {item.nbytes:>15,d} B  {item.role.name.lower():10s} "
            f"steps [{item.first},{item.last})  {name}"
        )
    return lines


def summary_text(data: PlanData) -> str:
    """Return the table of a plan."""
    figures = accounts(data)
    rows = [_bytes_row(label, figures[key]) for label, key in _ROLE_ROWS]
    return "\n".join(_head_lines(data) + _bound_lines(data) + rows + _peak_lines(data))
