"""`armtrain demo`: a complete run on real data."""

from __future__ import annotations

import argparse

from armtrain.cli.common import Subparsers, at_least, json_progress, path_text, print_json
from armtrain.cli.parser import Parser
from armtrain.cli.train import print_memory
from armtrain.limits import MAX_EPOCHS

__all__ = ["add_parser", "run"]

NAMES = ("digits",)


JSON_LINES = "one object a line, the log's for each epoch, then the result"


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser(
        "demo", help="a complete run: plan, train, test on embedded data"
    )
    parser.add_argument("name", nargs="?", choices=NAMES, default="digits", help="default: digits")
    parser.add_argument(
        "--epochs", type=at_least(1, MAX_EPOCHS), help="fewer or more than the demo's own"
    )
    parser.add_argument("--seed", type=at_least(0), default=0, help="key of everything random")
    parser.add_argument(
        "--save", metavar="F.safetensors", type=path_text, help="write the trained weights"
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Plan, train, test."""
    from armtrain.demos import digits

    planned = digits.plan_digits()
    if not args.json:
        print(planned, end="\n\n", flush=True)
    done = digits.train_digits(
        planned,
        epochs=args.epochs or digits.EPOCHS,
        seed=args.seed,
        progress=json_progress() if args.json else None,
    )
    if args.save:
        done.trainer.save(args.save)
    if args.json:
        print_json(done.to_json_dict())
        return 0
    print_memory(done.trainer)
    accuracy = 100 * (done.test.accuracy or 0.0)
    print(f"\ntest accuracy {accuracy:.2f} % on {done.test.samples} digits never trained on")
    return 0
