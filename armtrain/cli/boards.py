"""`armtrain boards`: the board profiles as a list, or one in full with its sources."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from armtrain.cli.common import Subparsers, print_json
from armtrain.cli.parser import Parser

if TYPE_CHECKING:
    from armtrain.board.profile import Board

__all__ = ["add_parser", "describe", "run"]


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser(
        "boards", help="list the board profiles, or show one with its sources"
    )
    parser.add_argument("board", metavar="ID", nargs="?", help="id, or a profile file in .toml")
    return parser


def run(args: argparse.Namespace) -> int:
    """List or show; an unknown board raises PlanError with the known ones."""
    from armtrain.board.profile import board_ids, load_board

    if args.board is not None:
        board = load_board(args.board)
        if args.json:
            print_json(describe(board))
        else:
            _show(board)
        return 0
    boards = [load_board(i) for i in board_ids()]
    if args.json:
        print_json([describe(board) for board in boards])
    else:
        _list(boards)
    return 0


def describe(board: Board) -> dict[str, Any]:
    """Return a profile as JSON values; `cores` holds its clusters, the big one first."""
    values = asdict(board)
    values["cores"] = [
        cluster | {"count": len(cluster["cpus"])} for cluster in values.pop("clusters")
    ]
    values["core_count"] = board.cores
    values["peak_fp32_gflops"] = board.peak_gflops
    return values


def _list(boards: list[Board]) -> None:
    """Print one line a board."""
    print(f"{'id':21s} {'threads':>7s}  {'cores':31s} {'memory, MiB':20s} storage")
    for b in boards:
        cores = " + ".join(f"{len(c.cpus)} x {c.core}" for c in b.clusters) or "-"
        sizes = "/".join(f"{v:g}" for v in b.memory.ram_mib.values) if b.memory else "-"
        media = " ".join(s.id for s in b.storage) or "-"
        print(f"{b.id:21s} {b.threads:7d}  {cores:31s} {sizes:20s} {media}")


def _show(board: Board) -> None:
    """Print every field of a profile, with the sources of the numbers."""
    for label, value in _lines("", asdict(board)):
        print(f"{label:34s} {value}")
    if board.peak_gflops is not None:
        print(f"{'peak_fp32_gflops':34s} {board.peak_gflops:.1f}  [derived: cores x clock x rate]")


def _lines(label: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of every field that is known, from the outside in."""
    if isinstance(value, dict) and set(value) in ({"value", "source"}, {"values", "source"}):
        numbers = value.get("values", (value.get("value"),))
        yield label, f"{' '.join(f'{n:g}' for n in numbers)}  [{value['source']}]"
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _lines(f"{label}.{key}" if label else key, inner)
    elif isinstance(value, tuple | list):
        if any(isinstance(v, dict) for v in value):
            for number, inner in enumerate(value):
                yield from _lines(f"{label}[{number}]", inner)
        elif value:
            yield label, " ".join(map(str, value))
    elif value not in (None, "", False):
        yield label, str(value)
