"""The figures of a run as tables for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.bench.products import PASSES
from tests.bench.training import ARMTRAIN, FRAMEWORKS, MIB

__all__ = ["SECTIONS", "text_of"]

Row = dict[str, Any]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return columns, the first to the left, all others to the right."""
    lines = [list(heads), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def number(value: float | None, form: str = ".2f") -> str:
    """Return a number, or a dash where there is none."""
    return "-" if value is None else f"{value:{form}}"


def _names(rows: Sequence[Row], field: str) -> list[str]:
    """Return the frameworks with a figure, in order."""
    return [name for name in FRAMEWORKS if any(name in row[field] for row in rows)]


def steps(rows: Sequence[Row]) -> str:
    """Return processor milliseconds a step, ratios to PyTorch, wall milliseconds."""
    names = _names(rows, "cpu_seconds")
    compared = [n for n in names if any(n in r["cpu_ratio_to_torch"] for r in rows)]
    heads = ["workload", *(f"{n} ms" for n in names), *(f"{n}/torch" for n in compared)]
    heads += [*(f"{n} wall" for n in names), "GFLOP", "GFLOP/s", "plan s"]
    lines = []
    for row in rows:
        cpu, wall, ratio = (row[k] for k in ("cpu_seconds", "wall_seconds", "cpu_ratio_to_torch"))
        flop = row["flops_per_step"] / 1e9
        own = cpu.get(ARMTRAIN)
        lines.append(
            [
                f"{row['workload']:5s}{row['title']}",
                *(number(1e3 * cpu[n]) if n in cpu else "-" for n in names),
                *(number(ratio.get(n)) for n in compared),
                *(number(1e3 * wall[n]) if n in wall else "-" for n in names),
                *(number(flop, ".3f"), number(flop / own if own else None, ".0f")),
                number(row["planning_seconds"], ".1f"),
            ]
        )
    return table(heads, lines)


def threads(rows: Sequence[Row]) -> str:
    """Return wall milliseconds of one and two threads."""
    lines = [
        [
            f"{row['workload']} {name}",
            *(number(1e3 * row[name][n]) for n in ("1", "2")),
            number(row[name]["speedup"]) + "x",
        ]
        for row in rows
        for name in FRAMEWORKS
        if name in row
    ]
    return table(["workload", "1 thread ms", "2 threads ms", "speed-up"], lines)


def memory(rows: Sequence[Row]) -> str:
    """Return MiB."""
    names = _names(rows, "peak_bytes")
    own = [n for n in names if any(n in r["peak_over_arena_bytes"] for r in rows)]
    heads = ["workload", "bound", "arena", *names, *(f"{n} - arena" for n in own)]
    lines = [
        [
            row["workload"],
            *(number(row[k] / MIB, ".1f") for k in ("lower_bound_bytes", "arena_bytes")),
            *(number(row["peak_bytes"][n] / MIB, ".1f") for n in names),
            *(number(row["peak_over_arena_bytes"][n] / MIB, ".1f") for n in own),
        ]
        for row in rows
    ]
    return table(heads, lines)


def products(rows: Sequence[Row]) -> str:
    """Return GFLOP/s."""
    lines = [
        [
            "x".join(map(str, row["size"])),
            *(number(row[n] / 1e9 if n in row else None, ".0f") for n in ("armtrain", "openblas")),
            number(row.get("ratio")),
        ]
        for row in rows
    ]
    return table(["M x N x K", "armtrain", "openblas", "ratio"], lines)


def convolutions(rows: Sequence[Row]) -> str:
    """Return GFLOP/s and shares of the roof."""
    lines = [
        [
            row["shape"],
            *(number(row[p] / 1e9, ".0f") for p in PASSES),
            *(number(100 * row[f"{p}_share"], ".0f") + " %" for p in PASSES),
        ]
        for row in rows
    ]
    return table(["convolution", *PASSES, *(f"{p} of roof" for p in PASSES)], lines)


def depthwise(rows: Sequence[Row]) -> str:
    """Return microseconds, and how many times faster than PyTorch."""
    lines = [
        [
            row["shape"],
            *(number(1e6 * row[f"{p}_armtrain_seconds"], ".0f") for p in PASSES),
            *(number(row.get(f"{p}_speedup")) + "x" for p in PASSES),
        ]
        for row in rows
    ]
    return table(
        ["depthwise", *(f"{p} us" for p in PASSES), *(f"{p}/torch" for p in PASSES)], lines
    )


def busy(rows: Sequence[Row]) -> str:
    """Return wall milliseconds."""
    lines = [
        [row["workload"], *(number(1e3 * row[n]) for n in ("1", "2")), number(row["ratio"])]
        for row in rows
    ]
    return table(["workload", "1 thread ms", "2 threads ms", "2 over 1"], lines)


SECTIONS: dict[str, tuple[str, Callable[[Sequence[Row]], str]]] = {
    "steps": ("Training steps on one thread, processor time (GFLOP/s: armtrain's)", steps),
    "threads": ("Wall time of a step with two threads", threads),
    "memory": ("Peak of the whole process, MiB", memory),
    "products": ("Matrix products on one thread, GFLOP/s", products),
    "convolutions": ("Convolutions of ResNet-18 on one thread, GFLOP/s", convolutions),
    "depthwise": ("Depthwise convolutions of MobileNetV2 on one thread", depthwise),
    "busy": ("Wall time of a step while another process keeps one of two processors", busy),
}
"""Part -> title and table."""


def text_of(part: str, rows: Sequence[Row]) -> str:
    """Return a titled table."""
    title, make = SECTIONS[part]
    return f"\n{title}\n{make(rows)}" if rows else f"\n{title}: nothing to compare"
