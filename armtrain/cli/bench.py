"""`armtrain bench`: training steps and data paths timed on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from armtrain.cli.common import Subparsers, at_least, kernel_level, print_json
from armtrain.cli.parser import Parser, describe_models

if TYPE_CHECKING:
    from armtrain.planfile.plan import Plan
    from armtrain.runtime.trainer import Trainer

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser("bench", help="time training steps on this machine")
    parser.details = (describe_models,)
    parser.add_argument(
        "model", nargs="?", default="zoo:lenet5", help="F.plan, zoo:NAME or file.py:callable"
    )
    parser.add_argument("--batch", type=at_least(1), default=32, help="for models; default 32")
    parser.add_argument("--threads", type=at_least(1), default=0, help="at most the planned number")
    parser.add_argument("--repeat", type=at_least(1), default=20, help="timed runs; default 20")
    parser.add_argument(
        "--kernel-level",
        type=kernel_level,
        metavar="L",
        help="one level; default: all that run here",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="time each operation of a training step instead, beside what this processor reaches "
        "at best; with --json every step too",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Time and print medians."""
    from armtrain.runtime.engine import engine_module

    plan = _plan(args.model, args.batch)
    if args.profile:
        from armtrain.cli.bench_profile import print_profile

        print_profile(args.model, plan, args.repeat, args.threads, args.kernel_level, args.json)
        return 0
    levels = [args.kernel_level] if args.kernel_level else list(engine_module().kernel_levels())
    rows = []
    for level in levels:
        rows += _rows(plan, level, args.threads, args.repeat)
    if args.json:
        result = {"model": args.model, "batch_size": plan.batch_size, "repeat": args.repeat}
        print_json(result | {"arena_bytes": plan.arena_bytes, "predicted": None, "rows": rows})
        return 0
    print(f"{args.model}, batch {plan.batch_size}, median of {args.repeat}")
    print(
        f"{'level':12s}{'threads':>8s}  {'what':24s}{'median':>12s}{'best':>12s}{'samples/s':>12s}"
    )
    for row in rows:
        print(
            f"{row['kernel_level']:12s}{row['threads']:8d}  {row['what']:24s}"
            f"{1e3 * row['median_seconds']:9.3f} ms{1e3 * row['best_seconds']:9.3f} ms"
            f"{row['samples_per_second']:12.1f}"
        )
    return 0


def _plan(model: str, batch: int) -> Plan:
    """Return the plan of a file, or of a model compiled now."""
    from armtrain.cli.plan import compile_model
    from armtrain.planfile.plan import Plan

    if model.endswith(".plan"):
        return Plan.load(model)
    return compile_model(model, batch_size=batch)


def _rows(plan: Plan, level: str, threads: int, repeat: int) -> list[dict[str, Any]]:
    """Time everything at one kernel level."""
    from armtrain.runtime.trainer import Trainer

    trainer = Trainer(plan, threads=threads, kernel_level=level)
    return [
        {
            "kernel_level": level,
            "threads": trainer.info["threads"],
            "what": what,
            "median_seconds": median(times),
            "best_seconds": min(times),
            "samples_per_second": plan.batch_size / median(times),
        }
        for what, times in _timings(trainer, plan.batch_size, repeat)
    ]


def _timings(trainer: Trainer, batch: int, repeat: int) -> list[tuple[str, list[float]]]:
    """Return (what, seconds of each run) for the parts of a run."""
    import numpy as np

    with trainer.open(f"random:samples={batch}", targets=True) as source:
        x, y = trainer.new_batch()
        rows = np.arange(batch, dtype=np.uint64)
        source.read(rows, x, y)
        made = _time(lambda: source.read(rows, x, y), min(repeat, 5))
    return [
        ("training step", _time(lambda: trainer.step(x, y), repeat)),
        ("evaluation", _time(lambda: trainer.evaluate((x, y)), repeat)),
        ("prediction", _time(lambda: trainer.predict(x), repeat)),
        ("random: batch made", made),
    ]


def _time(work: Callable[[], object], repeat: int) -> list[float]:
    """Return the seconds of each of `repeat` runs after one that warms up."""
    work()
    times = []
    for _ in range(repeat):
        began = perf_counter()
        work()
        times.append(perf_counter() - began)
    return times
