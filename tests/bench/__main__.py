"""Compare speed and memory with PyTorch and OpenBLAS on this machine: `make bench`.

docs/benchmarks.md says what every figure is. Nothing passes or fails by a time.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from armtrain.runtime.engine import engine_module
from armtrain.runtime.machine import read_machine
from armtrain.runtime.roofs import Roofs, measure_roofs
from tests.bench import products, training
from tests.bench.contenders import RUN, has_torch, set_torch_threads
from tests.bench.openblas import TUNING, OpenBlas, find_openblas
from tests.bench.report import SECTIONS, text_of
from tests.bench.workloads import WORKLOADS, Workload

DEFAULT_WORKLOADS = ("A", "B", "Cn", "C", "D32", "E", "F", "G", "H")
TWO_THREADS = ("Cn", "D32")
Rows = Iterator[dict[str, Any]]


class Run:
    """What a run compares.

    Attributes
    ----------
    workloads : list of Workload
    frameworks : list of str
        Those asked for that are here.
    missing : list of str
        Why others are left out.
    repeats : int
        Of each timed product.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.workloads = [WORKLOADS[key] for key in args.workloads]
        self.seconds, self.repeats = args.seconds, args.repeats
        self.level = engine_module().kernel_levels()[-1]
        self.roofs: Roofs = measure_roofs(self.level)
        self.blas: OpenBlas | None = find_openblas()
        self.torch = importlib.import_module("torch") if has_torch() else None
        if self.torch:
            set_torch_threads(1)
        reasons = {
            training.RUN: "" if RUN.exists() else f"{RUN} is not built (make run)",
            **dict.fromkeys(
                training.TORCHES,
                "" if self.torch else "PyTorch is not installed (pip install torch==2.13.0)",
            ),
        }
        self.frameworks = [n for n in args.frameworks if not reasons.get(n)]
        self.missing = [f"{n}: {reasons[n]}" for n in args.frameworks if reasons.get(n)]
        if self.blas is None:
            self.missing.append("openblas: NumPy works with another BLAS here")

    def machine(self) -> dict[str, Any]:
        """Return what the figures depend on."""
        facts = read_machine()
        return {
            "processor": facts.model,
            "processors_usable": facts.cpus_usable,
            "load": os.getloadavg(),
            "kernel_level": self.level,
            "multiply_add_flops_per_second": self.roofs.flops_per_second,
            "copy_bytes_per_second": self.roofs.bytes_per_second,
            "openblas": self.blas.name if self.blas else None,
            "torch": self.torch.__version__ if self.torch else None,
            "python": platform.python_version(),
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "left_out": self.missing,
        }

    def steps(self) -> Rows:
        """Yield the rows of this part; the methods below, too, are named after parts."""
        for workload in self.workloads:
            yield training.steps_row(workload, self.frameworks, self.seconds)

    def threads(self) -> Rows:
        """Yield rows."""
        if len(os.sched_getaffinity(0)) > 1:
            for workload in self._chosen(TWO_THREADS):
                yield training.threads_row(workload, self.frameworks, self.seconds)

    def memory(self) -> Rows:
        """Yield rows."""
        for workload in self.workloads:
            yield training.memory_row(workload, self.frameworks)

    def products(self) -> Rows:
        """Yield rows."""
        kernels = products.Kernels(self.level)
        for size in products.GEMMS:
            yield products.gemm_row(kernels, self.blas, size, self.repeats)

    def convolutions(self) -> Rows:
        """Yield rows."""
        kernels = products.Kernels(self.level)
        for shape in products.CONVOLUTIONS:
            yield products.convolution_row(kernels, shape, self.repeats)

    def depthwise(self) -> Rows:
        """Yield rows."""
        kernels = products.Kernels(self.level)
        for shape in products.DEPTHWISE:
            yield products.depthwise_row(kernels, shape, self.repeats, self.torch)

    def busy(self) -> Rows:
        """Yield rows."""
        if len(os.sched_getaffinity(0)) > 1:
            for workload in self._chosen(TWO_THREADS):
                yield training.busy_row(workload, self.seconds)

    def _chosen(self, keys: tuple[str, ...]) -> list[Workload]:
        """Return the workloads among `keys`, or all when none is."""
        return [w for w in self.workloads if w.key in keys] or self.workloads


def parse(argv: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        *("--workloads", "-w"), nargs="+", choices=WORKLOADS, default=DEFAULT_WORKLOADS
    )
    parser.add_argument(
        "--frameworks", nargs="+", choices=training.FRAMEWORKS, default=training.FRAMEWORKS[:3]
    )
    parser.add_argument("--parts", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="for each framework and workload; default 3"
    )
    parser.add_argument("--repeats", type=int, default=7, help="of each product; default 7")
    parser.add_argument("--output", type=Path, default=Path("build/bench.json"))
    parser.add_argument("--json", action="store_true", help="print JSON alone")
    return parser.parse_args(argv)


def without_tuning(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment without variables that choose kernels or threads."""
    return {k: v for k, v in environment.items() if not k.startswith(TUNING)}


def main(argv: list[str], say: Callable[[str], None] = print) -> int:
    """Measure, print and write the figures."""
    args = parse(argv)
    run = Run(args)
    tell: Callable[[str], None] = (lambda text: None) if args.json else say
    began = time.monotonic()
    result: dict[str, Any] = {"machine": run.machine()}
    for key, value in result["machine"].items():
        tell(f"{key:30s}{value}")
    for part in args.parts:
        result[part] = list(getattr(run, part)())
        tell(text_of(part, result[part]))
    result["seconds"] = time.monotonic() - began
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    tell(f"\n{result['seconds']:.0f} s; written: {args.output}")
    if args.json:
        say(json.dumps(result))
    return 0


if __name__ == "__main__":
    clean = without_tuning(dict(os.environ))
    if len(clean) < len(os.environ):
        left = sorted(set(os.environ) - set(clean))
        print(f"left out of the environment: {', '.join(left)}", file=sys.stderr)
        os.execve(sys.executable, [sys.executable, "-m", "tests.bench", *sys.argv[1:]], clean)
    sys.exit(main(sys.argv[1:]))
