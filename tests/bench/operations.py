"""Time every operation at every kernel level: `python -m tests.bench.operations [WORD ...]`.

The steps are those of the case table of tests/ops with a larger batch; of each operation the one
with the most bytes is run alone on one thread, its operands restored before every run. Printed are
the best time at the plain level and how many times faster the others are. WORDs choose operations
by a part of their names.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from dataclasses import replace
from time import perf_counter

import numpy as np

from armtrain.ir.cost import step_bytes
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Phase, Role
from armtrain.planfile.plan import Plan
from armtrain.runtime.engine import engine_module
from tests.ops.cases import CASES, Case, batch, make_plan
from tests.ops.stepwise import Record, Stepper, open_engine

PHASES = (Phase.TRAIN, Phase.EVALUATE)


def chosen(words: list[str], n: int) -> dict[str, dict[int, OpCode]]:
    """Return per case the steps to time: for each operation the one with the most bytes."""
    largest: dict[OpCode, tuple[int, str, int]] = {}
    for name, case in CASES.items():
        program = make_plan(replace(case, batch_size=n), threads=1).program
        for index, step in enumerate(program.steps):
            wanted = not words or any(word in step.op.name.lower() for word in words)
            if wanted and step.phase in PHASES:
                found = (step_bytes(step, program.tensors), name, index)
                largest[step.op] = max(found, largest.get(step.op, found), key=lambda f: f[0])
    steps: dict[str, dict[int, OpCode]] = defaultdict(dict)
    for op, (_, name, index) in largest.items():
        steps[name][index] = op
    return steps


def recorded(plan: Plan, case: Case, level: str) -> tuple[Stepper, list[Record]]:
    """Run training and evaluation once; return every step with what it read."""
    n = plan.batch_size
    stepper = Stepper(plan, open_engine(plan, kernel_level=level), n)
    records = []
    for phase in PHASES:
        x, target = batch(case, n)
        stepper.feed(phase, Role.INPUT, x)
        stepper.feed(phase, Role.TARGET, target)
        records += stepper.run(phase)
    return stepper, records


def best_seconds(stepper: Stepper, record: Record, repeats: int) -> float:
    """Return the shortest time of one step."""
    times = []
    for _ in range(repeats):
        stepper.restore(record)
        began = perf_counter()
        stepper.engine.run_steps(record.index, record.index + 1, stepper.n)
        times.append(perf_counter() - began)
    return min(times)


def main(argv: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.operations")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=30)
    args = parser.parse_args(argv)
    levels = engine_module().kernel_levels()
    print(f"{'operation':30s}{'case':24s}{'bytes':>10s}{levels[0]:>12s}", end="")
    print("".join(f"{level:>12s}" for level in levels[1:]))
    for name, steps in chosen(args.words, args.batch).items():
        case = replace(CASES[name], batch_size=args.batch)
        plan = make_plan(case, threads=1)
        times = defaultdict(list)
        for level in levels:
            stepper, records = recorded(plan, case, level)
            for index in steps:
                times[index].append(best_seconds(stepper, records[index], args.repeats))
        for index, op in steps.items():
            size = step_bytes(plan.program.steps[index], plan.program.tensors)
            plain, *others = times[index]
            ratios = "".join(f"{plain / other:11.2f}x" for other in others)
            print(f"{op.name.lower():30s}{name:24s}{size:10d}{1e6 * plain:9.1f} us{ratios}")
    return 0


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        sys.exit(main(sys.argv[1:]))
