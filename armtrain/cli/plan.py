"""`armtrain plan`: compile a model into a plan file."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from armtrain.cli.common import (
    MOST_U32,
    Subparsers,
    UsageError,
    at_least,
    path_text,
    positive,
    print_json,
    shape,
    size_bytes,
)
from armtrain.cli.parser import Parser, describe_losses, describe_models, describe_optimizers
from armtrain.errors import DoesNotFitError

if TYPE_CHECKING:
    from armtrain.planfile.plan import Plan

__all__ = ["add_parser", "compile_model", "run"]

_OPTIMIZER = "sgd:lr=0.01"


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser("plan", help="compile a model into a plan file")
    parser.details = (describe_models, describe_losses, describe_optimizers)
    parser.add_argument("model", metavar="MODEL", help="zoo:NAME or FILE.py:NAME, see below")
    parser.add_argument("-o", "--output", metavar="F.plan", type=path_text, required=True)
    parser.add_argument(
        "--batch", type=at_least(1, MOST_U32), required=True, help="samples in a batch"
    )
    parser.add_argument(
        "--input-shape", type=shape, metavar="CxHxW", help="one sample, as in 3x32x32"
    )
    parser.add_argument("--loss", metavar="L", help="default: the model's own")
    parser.add_argument(
        "--optimizer", metavar="O", default=_OPTIMIZER, help=f"default: {_OPTIMIZER}"
    )
    parser.add_argument(
        "--param-group",
        metavar="GROUP",
        action="append",
        default=[],
        help="PATTERN:OPTION=VALUE,...: other options of the optimizer for some parameters, as in "
        "'*.bias:weight_decay=0'; "
        "may be given several times",
    )
    parser.add_argument("--clip-norm", type=positive, metavar="X", help="clip the global norm to X")
    parser.add_argument(
        "--clip-value", type=positive, metavar="X", help="clip every gradient to [-X, X]"
    )
    parser.add_argument(
        "--train-only", metavar="PATTERN", help="freeze parameters that do not match, as in 'fc.*'"
    )
    parser.add_argument("--budget", type=size_bytes, metavar="B", help="largest arena, as in 2MiB")
    parser.add_argument("--board", metavar="ID", default="generic", help="id or profile file")
    parser.add_argument(
        "--storage",
        metavar="MEDIUM",
        help="medium for swapping: an id of the board's storage table, as sd-ddr50, or a profile "
        "file; recorded in the plan with its rates, changes nothing else while no plan swaps",
    )
    parser.add_argument(
        "--threads", type=at_least(1, MOST_U32), metavar="T", help="default: the board's big cores"
    )
    parser.add_argument(
        "--no-free-recompute",
        dest="free_recompute",
        action="store_false",
        help="keep every value that the backward pass reads, even where making it again is cheap "
        "and the arena smaller; the same bits either way",
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
        param_groups=args.param_group,
        train_only=args.train_only,
        clip_norm=args.clip_norm,
        clip_value=args.clip_value,
        budget=args.budget,
        board=args.board,
        threads=args.threads,
        storage=args.storage,
        free_recompute=args.free_recompute,
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
    param_groups: Sequence[str] = (),
    **options: Any,
) -> Plan:
    """Compile what the command line names; `options` go to `armtrain.plan`."""
    from armtrain.cli.model import make_groups, make_loss, make_optimizer, zoo_entry
    from armtrain.cli.user_file import model_file, model_from_file, user_code
    from armtrain.compiler import plan

    options["optimizer"] = make_optimizer(optimizer)
    options["param_groups"] = make_groups(param_groups, options["optimizer"])
    if model.startswith("zoo:"):
        found = zoo_entry(model.removeprefix("zoo:"))
        options["loss"] = found.loss() if loss is None else make_loss(loss)
        return _in_options(
            plan, found.build(), input_shape=input_shape or found.input_shape, **options
        )
    path, name = model_file(model)
    options["loss"] = make_loss(loss or "cross_entropy")
    with user_code(path):
        net = model_from_file(path, name)
        if input_shape is None:
            raise UsageError(
                f"MODEL '{model}' has no shape of its own: add --input-shape, as in 3x32x32"
            )
        return _in_options(plan, net, input_shape=input_shape, **options)


def _in_options(plan: Callable[..., Plan], net: Any, **options: Any) -> Plan:
    """Plan; a refusal of the budget names options instead of Python's arguments."""
    from armtrain.planfile.refuse import OverBudgetError
    from armtrain.words import OPTIONS

    try:
        return plan(net, **options)
    except OverBudgetError as error:
        raise DoesNotFitError(error.text(OPTIONS)) from None
