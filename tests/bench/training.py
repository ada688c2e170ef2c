"""Training steps of the workloads: times in turns, two threads, a busy processor, peaks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import armtrain as at
from armtrain.ir.cost import product_flops
from armtrain.ir.program import Phase
from tests.bench.contenders import (
    ROOT,
    Armtrain,
    Contender,
    RunProgram,
    Torch,
    check_same_work,
    make_plan,
    set_torch_threads,
)
from tests.bench.workloads import Batch, Workload, make_batch

__all__ = [
    "ARMTRAIN",
    "FRAMEWORKS",
    "RUN",
    "TORCHES",
    "busy_row",
    "memory_row",
    "steps_row",
    "threads_row",
]

ARMTRAIN, RUN = "armtrain", "armtrain-run"
TORCHES = {"torch": False, "torch-cl": True}
"""Name -> whether its tensors are channels-last."""
FRAMEWORKS = (ARMTRAIN, RUN, *TORCHES)
MIB = 1 << 20
_MOST_ROUNDS, _FEWEST_ROUNDS = 15, 5
_MOST_BATCHES, _EPOCH_FLOP = 64, 1e10
_STEADY_SECONDS = {RUN: 0.4}
"""Seconds that one timing takes at least: the start of a process varies."""


def make_contenders(
    workload: Workload, names: list[str], plan: at.Plan, batch: Batch, folder: Path
) -> dict[str, Contender]:
    """Return those of `names`, checked to train the same, in the order of `FRAMEWORKS`."""
    made: dict[str, Any] = {ARMTRAIN: Armtrain(plan, batch)} if ARMTRAIN in names else {}
    for name, channels_last in TORCHES.items():
        if name in names:
            made[name] = Torch(workload, batch, channels_last=channels_last)
    if made:
        check_same_work(made)
    if RUN in names:
        batches = min(_MOST_BATCHES, int(_EPOCH_FLOP / max(1, flops_of(plan))))
        made[RUN] = RunProgram(plan, batch, folder, batches)
    return {name: made[name] for name in FRAMEWORKS if name in made}


def steps_row(workload: Workload, names: list[str], seconds: float) -> dict[str, Any]:
    """Return median seconds of a step of each framework on one thread, and what the plan says.

    Parameters
    ----------
    workload : Workload
    names : list of str
        Of `FRAMEWORKS`.
    seconds : float
        To spend on each framework, roughly; five rounds are the least.
    """
    batch = make_batch(workload)
    began = time.process_time()
    plan = make_plan(workload, threads=1)
    planning = time.process_time() - began
    with TemporaryDirectory() as folder:
        contenders = make_contenders(workload, names, plan, batch, Path(folder))
        cpu, wall = in_turns(contenders, seconds)
    return {
        "workload": workload.key,
        "title": workload.title,
        "batch": workload.batch,
        "flops_per_step": flops_of(plan),
        "planning_seconds": planning,
        "cpu_seconds": cpu,
        "wall_seconds": wall,
        "cpu_ratio_to_torch": ratios(cpu, "torch"),
    }


def flops_of(plan: at.Plan) -> int:
    """Return the floating operations of a training step's products."""
    steps, tensors = plan.program.steps, plan.program.tensors
    return sum(product_flops(s, tensors) for s in steps if s.phase is Phase.TRAIN)


def threads_row(workload: Workload, names: list[str], seconds: float) -> dict[str, Any]:
    """Return wall seconds of a step with one and with two threads, in turns, and their quotient."""
    batch, plan = make_batch(workload), make_plan(workload, threads=2)
    row: dict[str, Any] = {"workload": workload.key}
    if ARMTRAIN in names:
        pair: dict[str, Contender] = {str(n): Armtrain(plan, batch, n) for n in (1, 2)}
        _, wall = in_turns(pair, seconds)
        row[ARMTRAIN] = wall | {"speedup": wall["1"] / wall["2"]}
    if "torch" in names:
        net = Torch(workload, batch)
        wall = {}
        for n in (1, 2):
            set_torch_threads(n)
            wall[str(n)] = in_turns({"torch": net}, seconds)[1]["torch"]
        set_torch_threads(1)
        row["torch"] = wall | {"speedup": wall["1"] / wall["2"]}
    return row


def busy_row(workload: Workload, seconds: float) -> dict[str, Any]:
    """Return wall seconds of a step with one and two threads while another process spins.

    It keeps one of two processors: two threads cannot be twice as fast, but must not be slower.
    """
    batch, plan = make_batch(workload), make_plan(workload, threads=2)
    with two_processors() as processors, busy(processors[1]):
        pair: dict[str, Contender] = {str(n): Armtrain(plan, batch, n) for n in (1, 2)}
        _, wall = in_turns(pair, seconds)
    return {"workload": workload.key, **wall, "ratio": wall["2"] / wall["1"]}


def memory_row(workload: Workload, names: list[str]) -> dict[str, Any]:
    """Return the peak of a fresh process of each framework, beside what the plan says.

    `armtrain` opens a plan file, as on a board; planning has a process of its own.
    """
    plan = make_plan(workload, threads=1)
    peaks = {}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "bench.plan"
        plan.save(path)
        for name in names:
            if name == RUN:
                batch = make_batch(workload)
                peaks[name] = RunProgram(plan, batch, Path(folder), 1).peak_bytes()
            else:
                peaks[name] = _peak_of(name, workload.key, path)
    over = {n: b - plan.arena_bytes for n, b in peaks.items() if n in (ARMTRAIN, RUN)}
    return {
        "workload": workload.key,
        "arena_bytes": plan.arena_bytes,
        "lower_bound_bytes": plan.lower_bound_bytes,
        "peak_bytes": peaks,
        "peak_over_arena_bytes": over,
    }


def ratios(figures: dict[str, float], base: str) -> dict[str, float]:
    """Return the figures over that of `base`, nothing without it."""
    if base not in figures:
        return {}
    return {name: value / figures[base] for name, value in figures.items() if name != base}


def in_turns(
    contenders: dict[str, Contender], seconds: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Return median (processor, wall) seconds of a step, all timed in every round."""
    counts, once = {}, {}
    for name, contender in contenders.items():
        contender.seconds(1)
        step = max(contender.seconds(1)[1], 1e-6)
        least = _STEADY_SECONDS.get(name, 0.05)
        counts[name] = max(1, round(min(least, seconds / _FEWEST_ROUNDS) / step))
        once[name] = step * counts[name]
    rounds = int(seconds / max(once.values()))
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for _ in range(min(max(rounds, _FEWEST_ROUNDS), _MOST_ROUNDS)):
        for name, contender in contenders.items():
            times[name].append(contender.seconds(counts[name]))
    cpu, wall = ({n: median(t[i] for t in v) for n, v in times.items()} for i in (0, 1))
    return cpu, wall


@contextmanager
def two_processors() -> Iterator[tuple[int, int]]:
    """Confine this process to two processors; yield their numbers."""
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        raise ValueError("this needs two processors, the process may use one")
    first, second, *_ = sorted(before)
    os.sched_setaffinity(0, {first, second})
    try:
        yield first, second
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def busy(processor: int) -> Iterator[None]:
    """Keep a processor busy with a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(process.pid, {processor})
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _peak_of(framework: str, key: str, plan: Path) -> int:
    """Return the peak that a fresh process reports."""
    command = [sys.executable, "-m", "tests.bench.peak", framework, key, str(plan)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return int(json.loads(done.stdout)["peak_bytes"])
