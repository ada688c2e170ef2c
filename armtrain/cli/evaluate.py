"""`armtrain evaluate`: loss and accuracy of saved weights."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from armtrain.cli.common import (
    Subparsers,
    add_engine_arguments,
    data_spec,
    open_trainer,
    path_text,
    print_json,
)
from armtrain.cli.parser import Parser, describe_data

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser(
        "evaluate", help="loss and accuracy of saved weights on data"
    )
    parser.details = (describe_data,)
    add_engine_arguments(parser)
    parser.add_argument(
        "--weights", metavar="F", type=path_text, required=True, help="safetensors file"
    )
    parser.add_argument("--data", metavar="SPEC", type=data_spec, required=True)
    return parser


def run(args: argparse.Namespace) -> int:
    """Evaluate."""
    result = open_trainer(args).evaluate(args.data)
    if args.json:
        print_json(asdict(result))
        return 0
    print(f"{result.samples} samples  loss {result.loss:.6f}", end="")
    if result.accuracy is not None:
        print(f"  accuracy {100 * result.accuracy:.2f} % ({result.correct} right)", end="")
    print()
    return 0
