"""`armtrain evaluate`: loss, accuracy and other figures of saved weights."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from armtrain.cli.common import (
    Subparsers,
    add_engine_arguments,
    data_spec,
    open_trainer,
    path_text,
    print_json,
)
from armtrain.cli.parser import Parser, describe_data, describe_metrics
from armtrain.errors import ArgumentError

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser(
        "evaluate", help="loss and accuracy of saved weights on data"
    )
    parser.details = (describe_data, describe_metrics)
    add_engine_arguments(parser)
    parser.add_argument(
        "--weights", metavar="F", type=path_text, required=True, help="safetensors file"
    )
    parser.add_argument("--data", metavar="SPEC", type=data_spec, required=True)
    parser.add_argument(
        "--metrics", metavar="NAMES", type=_metrics, default=(), help="further figures: top5,mae"
    )
    return parser


def _metrics(text: str) -> tuple[str, ...]:
    """Argument type: names of metrics with commas between them."""
    from armtrain.runtime.metrics import as_names

    try:
        return as_names(text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def run(args: argparse.Namespace) -> int:
    """Evaluate."""
    result = open_trainer(args).evaluate(args.data, metrics=args.metrics)
    if args.json:
        print_json(asdict(result))
        return 0
    print(f"{result.samples} samples  loss {result.loss:.6f}", end="")
    if result.accuracy is not None:
        print(f"  accuracy {100 * result.accuracy:.2f} % ({result.correct} right)", end="")
    print()
    for name, value in result.metrics.items():
        print(f"{name} {_text(name, value)}")
    return 0


def _text(name: str, value: Any) -> str:
    """Return a figure for people: a share in per cent, a table, or a number."""
    if isinstance(value, tuple):
        return _table(value)
    return f"{100 * value:.2f} %" if name.startswith("top") else f"{value:.6f}"


def _table(rows: tuple[tuple[int, ...], ...]) -> str:
    """Return counts as a table with the classes' numbers, labels at the left."""
    numbers = [str(i) for i in range(len(rows))]
    width = max(len(str(cell)) for row in (*rows, numbers) for cell in row)
    lines = [("", numbers), *zip(numbers, rows, strict=True)]
    cells = [[f"{cell:>{width}}" for cell in (head, *row)] for head, row in lines]
    return "(rows: labels, columns: predicted)\n" + "\n".join(" ".join(row) for row in cells)
