"""`armtrain pack`: place buffers of a table into one memory, or certify such a placement."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from armtrain.cli.common import (
    Subparsers,
    UsageError,
    at_least,
    path_text,
    print_json,
    size_bytes,
)
from armtrain.cli.parser import Parser
from armtrain.errors import DoesNotFitError, PlanError

if TYPE_CHECKING:
    from armtrain.memory.problem import Problem, Solution

__all__ = ["add_parser", "run"]

_NODES = 50_000_000
_MOST_SHOWN = 5  # faults of a placement


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser(
        "pack", help="place buffers of a table (id,lower,upper,size) into one memory"
    )
    parser.add_argument(
        "buffers",
        metavar="BUFFERS.csv",
        type=path_text,
        nargs="?",
        help="columns id,lower,upper,size; a buffer is live at lower <= time < upper",
    )
    parser.add_argument(
        "--capacity", type=size_bytes, metavar="N", help="largest height; default: the least one"
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT.csv", type=path_text, help="the table with its offsets"
    )
    parser.add_argument(
        "--nodes",
        type=at_least(0),
        default=_NODES,
        metavar="N",
        help="placements that may be tried; the result depends on nothing else "
        f"(default: {_NODES:,})",
    )
    parser.add_argument(
        "--check",
        metavar="OUT.csv",
        type=path_text,
        help="certify this placement instead, of BUFFERS.csv if it is given",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Pack or check; a failure of either raises."""
    if args.check is not None:
        return _check(args)
    if args.buffers is None:
        raise UsageError("pack needs BUFFERS.csv, or --check OUT.csv")
    from armtrain.memory.packer import pack
    from armtrain.memory.search import NODES_PLAIN, is_compiled

    if not is_compiled() and args.nodes > NODES_PLAIN:
        raise UsageError(
            f"--nodes {args.nodes} takes hours without the compiled search: build armtrain's "
            f"extension modules (make ext), or allow at most --nodes {NODES_PLAIN}"
        )
    problem, _ = _read(args.buffers)
    solution = pack(problem, capacity=args.capacity, node_limit=args.nodes)
    if args.capacity is not None and solution.height_bytes > args.capacity:
        raise DoesNotFitError(_refusal(problem, solution, args.capacity, args.nodes))
    if args.output is not None:
        from armtrain.atomic import write_bytes

        write_bytes(args.output, problem.to_csv(solution).encode())
    _report(args, problem, solution)
    return 0


def _read(path: str) -> tuple[Problem, tuple[int, ...] | None]:
    """Return a table's buffers and, if it has them, their offsets."""
    from armtrain.files import read_regular
    from armtrain.memory.problem import Problem

    try:
        text = read_regular(path).decode("utf-8-sig")
        return Problem.from_csv(text), Problem.offsets_from_csv(text)
    except UnicodeDecodeError as error:
        raise PlanError(f"{path} is no text: byte {error.start} is not UTF-8") from None
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None


def _refusal(problem: Problem, solution: Solution, capacity: int, nodes: int) -> str:
    """Return why the capacity is too small, and what would do."""
    count = len(problem.buffers)
    least = solution.proved_minimum_bytes
    if least > capacity:
        return (
            f"{count} buffers do not fit into {capacity}: at least {least} are needed, which is "
            f"proved, and {solution.height_bytes} are enough: --capacity {solution.height_bytes}"
        )
    return (
        f"no packing of {count} buffers into {capacity} was found by {solution.nodes} placements, "
        f"nor a proof that there is none; {solution.height_bytes} are enough: --capacity "
        f"{solution.height_bytes}, or search longer: --nodes {max(10 * nodes, _NODES)}"
    )


def _report(args: argparse.Namespace, problem: Problem, solution: Solution) -> None:
    """Print what was found."""
    facts = {
        "buffers": len(problem.buffers),
        "capacity": args.capacity,
        "height_bytes": solution.height_bytes,
        "lower_bound_bytes": solution.lower_bound_bytes,
        "proved_minimum_bytes": solution.proved_minimum_bytes,
        "method": solution.method,
        "nodes": solution.nodes,
        "output": args.output,
    }
    if args.json:
        print_json(facts)
        return
    print(
        f"{len(problem.buffers)} buffers in {solution.height_bytes}; live at one time "
        f"{solution.lower_bound_bytes}, proved minimum {solution.proved_minimum_bytes} "
        f"({solution.method}, {solution.nodes} placements tried)"
    )
    if args.output is not None:
        print(f"written: {args.output}")


def _check(args: argparse.Namespace) -> int:
    """Certify a placement by code that the packer does not use."""
    from armtrain.memory.bounds import lower_bound
    from armtrain.memory.validate import violations

    problem, offsets = _read(args.check)
    if offsets is None:
        raise PlanError(f"{args.check} has no column 'offset': it is no placement")
    faults = violations(problem, offsets, args.capacity)
    if args.buffers is not None:
        faults += _differences(_read(args.buffers)[0], problem)
    if faults:
        more = f"; and {len(faults) - _MOST_SHOWN} more" if len(faults) > _MOST_SHOWN else ""
        raise PlanError(f"{args.check}: {'; '.join(faults[:_MOST_SHOWN])}{more}")
    tops = [o + b.size for o, b in zip(offsets, problem.buffers, strict=True)]
    height, bound = max(tops, default=0), lower_bound(problem.buffers)
    if args.json:
        facts = {"ok": True, "buffers": len(tops), "height_bytes": height}
        print_json({**facts, "lower_bound_bytes": bound, "capacity": args.capacity})
    else:
        print(
            f"{args.check}: ok; no two of {len(tops)} buffers that are live together overlap in "
            f"{height}, where {bound} are live at one time"
        )
    return 0


def _differences(wanted: Problem, placed: Problem) -> list[str]:
    """Return what a placement lacks of the buffers it should place, or has beyond them."""
    tables = []
    for problem in (wanted, placed):
        rows = {problem.name(i): b for i, b in enumerate(problem.buffers)}
        tables.append(rows)
    here, there = tables
    return [
        f"buffer {name} is {there.get(name, 'missing')}, not {here.get(name, 'in BUFFERS.csv')}"
        for name in sorted(here.keys() | there.keys())
        if here.get(name) != there.get(name)
    ]
