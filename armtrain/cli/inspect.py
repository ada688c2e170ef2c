"""`armtrain inspect`: a plan as a table, as JSON, and as a picture."""

from __future__ import annotations

import argparse

from armtrain.cli.common import Subparsers, print_json
from armtrain.cli.parser import Parser

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser("inspect", help="show what a plan file holds")
    parser.add_argument("plan", metavar="F.plan", help="plan file")
    parser.add_argument("--svg", metavar="F", help="draw arena addresses over execution order")
    parser.add_argument("--html", metavar="F", help="the same with names under the pointer")
    parser.add_argument("--text", metavar="F", help="write every tensor and every step as text")
    return parser


def run(args: argparse.Namespace) -> int:
    """Show the plan."""
    from armtrain.atomic import write_bytes
    from armtrain.planfile.dump import text_dump
    from armtrain.planfile.plan import Plan
    from armtrain.planfile.render import html_page, svg_picture

    plan = Plan.load(args.plan)
    written = []
    for path, render in ((args.svg, svg_picture), (args.html, html_page), (args.text, text_dump)):
        if path:
            write_bytes(path, render(plan).encode())
            written.append(path)
    if args.json:
        print_json(plan.to_json_dict(inspect=True))
        return 0
    print(plan)
    for path in written:
        print(f"written: {path}")
    return 0
