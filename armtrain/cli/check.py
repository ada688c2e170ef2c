"""`armtrain check`: the independent checker."""

from __future__ import annotations

import argparse

from armtrain.cli.common import Subparsers, print_json
from armtrain.cli.parser import Parser

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser(
        "check", help="prove that a plan file is whole and safe to run"
    )
    parser.add_argument("plan", metavar="F.plan", help="plan file")
    return parser


def run(args: argparse.Namespace) -> int:
    """Check the file; a faulty one raises PlanError."""
    from armtrain.planfile.plan import Plan

    plan = Plan.load(args.plan)
    program = plan.program
    if args.json:
        print_json(
            {
                "ok": True,
                "arena_bytes": plan.arena_bytes,
                "tensors": len(program.tensors),
                "steps": len(program.steps),
            }
        )
    else:
        print(
            f"{args.plan}: ok; {len(program.tensors)} tensors and {len(program.steps)} steps in "
            f"{plan.arena_bytes} B, no two live buffers overlap"
        )
    return 0
