"""`armtrain plan`: compile a model into a plan file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from armtrain.cli.common import Subparsers, UsageError, at_least, print_json, shape, size_bytes
from armtrain.errors import DoesNotFitError
from armtrain.limits import MAX_THREADS

if TYPE_CHECKING:
    from armtrain.planfile.plan import Plan

__all__ = ["add_parser", "compile_model", "run"]

_OPTIMIZER = "sgd:lr=0.01"
_LOSS = "cross_entropy"


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add the verb."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "plan", help="compile a model into a plan file"
    )
    parser.add_argument("model", metavar="MODEL", help="zoo:NAME or file.py:callable")
    parser.add_argument("-o", "--output", metavar="F.plan", required=True)
    parser.add_argument("--batch", type=at_least(1), required=True, help="samples in a batch")
    parser.add_argument(
        "--input-shape", type=shape, metavar="CxHxW", help="one sample, as in 3x32x32"
    )
    parser.add_argument("--loss", help="cross_entropy or mse; default: the model's own")
    parser.add_argument("--optimizer", default=_OPTIMIZER, help=f"default: {_OPTIMIZER}")
    parser.add_argument("--clip-norm", type=float, metavar="X", help="clip the global norm to X")
    parser.add_argument(
        "--train-only", metavar="PATTERN", help="freeze parameters that do not match, as in 'fc.*'"
    )
    parser.add_argument("--budget", type=size_bytes, metavar="B", help="largest arena, as in 2MiB")
    parser.add_argument("--board", metavar="ID", default="generic", help="id or profile file")
    parser.add_argument(
        "--threads",
        type=at_least(1, MAX_THREADS),
        metavar="T",
        help="default: the board's big cores",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Compile and write; a plan beyond its budget raises DoesNotFitError."""
    plan = compile_model(
        args.model,
        batch_size=args.batch,
        input_shape=args.input_shape,
        loss=args.loss,
        optimizer=args.optimizer,
        train_only=args.train_only,
        clip_norm=args.clip_norm,
        budget=args.budget,
        board=args.board,
        threads=args.threads,
    )
    plan.save(args.output)
    if args.json:
        print_json(plan.to_json_dict())
    else:
        print(plan)
        print(f"\nwritten: {args.output}")
    return 0


def compile_model(
    model: str,
    *,
    input_shape: tuple[int, ...] | None = None,
    loss: str | None = None,
    optimizer: str = _OPTIMIZER,
    **options: Any,
) -> Plan:
    """Compile what the command line names; `options` go to `armtrain.plan`."""
    from armtrain.cli.model import make_loss, make_optimizer, model_from_file, zoo_entry
    from armtrain.compiler import plan
    from armtrain.planfile.refuse import OPTIONS, OverBudgetError

    if model.startswith("zoo:"):
        found = zoo_entry(model.removeprefix("zoo:"))
        net, default_shape, default_loss = found.build(), found.input_shape, found.loss()
    else:
        net, default_shape, default_loss = model_from_file(model), None, None
    shape_of_one = input_shape or default_shape
    if shape_of_one is None:
        raise UsageError(
            f"MODEL '{model}' has no shape of its own: add --input-shape, as in 3x32x32"
        )
    try:
        return plan(
            net,
            input_shape=shape_of_one,
            loss=(default_loss if loss is None and default_loss else make_loss(loss or _LOSS)),
            optimizer=make_optimizer(optimizer),
            **options,
        )
    except OverBudgetError as error:
        raise DoesNotFitError(error.text(OPTIONS)) from None
