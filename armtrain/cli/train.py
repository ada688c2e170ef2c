"""`armtrain train`: train from a plan file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from armtrain.cli.common import (
    Subparsers,
    UsageError,
    add_engine_arguments,
    at_least,
    augment,
    data_spec,
    json_progress,
    open_trainer,
    path_text,
    print_json,
    schedule,
)
from armtrain.cli.parser import Parser, describe_augment, describe_data, describe_schedules
from armtrain.limits import MAX_EPOCHS
from armtrain.words import MONITORS, OPTIONS

if TYPE_CHECKING:
    from armtrain.runtime.history import History
    from armtrain.runtime.trainer import Trainer

__all__ = ["add_parser", "print_memory", "run", "summary"]


JSON_LINES = "one object a line, the log's for each epoch, then a summary"


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser("train", help="train from a plan file")
    parser.details = (describe_data, describe_schedules, describe_augment)
    add_engine_arguments(parser)
    parser.add_argument("--data", metavar="SPEC", type=data_spec, required=True)
    parser.add_argument(
        "--epochs", type=at_least(0, MAX_EPOCHS), required=True, help="epochs of the whole run"
    )
    parser.add_argument("--validation", metavar="SPEC", type=data_spec)
    _add_checkpoints(parser)
    parser.add_argument(
        "--weights", metavar="F", type=path_text, help="start from these safetensors weights"
    )
    parser.add_argument(
        "--schedule", metavar="S", type=schedule, help="factor of the learning rates, see below"
    )
    _add_watching(parser)
    parser.add_argument(
        "--augment",
        metavar="A",
        type=augment,
        help="random changes of training inputs, as flip,shift=2; give the same with --resume",
    )
    parser.add_argument(
        "--no-preflight",
        dest="preflight",
        action="store_false",
        help="do not read all data before the first step",
    )
    parser.add_argument(
        "--log", metavar="F.jsonl", type=path_text, help="write one JSON object an epoch"
    )
    parser.add_argument(
        "--save",
        metavar="F.safetensors",
        type=path_text,
        help="write the trained weights; may be the file of --weights, but no other option's",
    )
    return parser


def _add_checkpoints(parser: Parser) -> None:
    """Add where checkpoints are written, and when."""
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        type=path_text,
        help="write a checkpoint after each epoch; one run at a time",
    )
    parser.add_argument(
        "--checkpoint-every",
        metavar="K",
        type=at_least(1, MAX_EPOCHS),
        help="and after every K steps",
    )
    parser.add_argument("--resume", action="store_true", help="continue from the newest checkpoint")


def _add_watching(parser: Parser) -> None:
    """Add what follows the epochs' values."""
    parser.add_argument(
        "--early-stopping",
        metavar="N",
        type=at_least(1, MAX_EPOCHS),
        help="stop after N epochs without a better value",
    )
    parser.add_argument(
        "--keep-best",
        metavar="F.safetensors",
        type=path_text,
        help="write the weights of the best epoch; --save writes the last ones",
    )
    parser.add_argument(
        "--monitor",
        choices=MONITORS,
        help="what --early-stopping, --keep-best and --schedule plateau follow; default: val_loss "
        "with --validation, else train_loss",
    )


def run(args: argparse.Namespace) -> int:
    """Train."""
    from armtrain.runtime.progress import default_progress

    if (args.resume or args.checkpoint_every) and not args.checkpoint:
        raise UsageError("--resume and --checkpoint-every need --checkpoint DIR")
    progress = json_progress() if args.json else default_progress(OPTIONS)
    trainer = open_trainer(args)
    history = trainer.fit(
        args.data,
        args.epochs,
        validation=args.validation,
        checkpoint=args.checkpoint,
        checkpoint_every=args.checkpoint_every,
        resume=args.resume,
        log=args.log,
        schedule=args.schedule,
        augment=args.augment,
        preflight=args.preflight,
        early_stopping=args.early_stopping,
        keep_best=args.keep_best,
        monitor=args.monitor,
        progress=progress,
    )
    if args.save:
        trainer.save(args.save)
    if args.json:
        print_json(summary(trainer, history) | {"saved": args.save})
        return 0
    print_memory(trainer)
    if args.save:
        print(f"weights: {args.save}")
    return 0


def summary(trainer: Trainer, history: History) -> dict[str, object]:
    """Return the last JSON object of a run."""
    growth = trainer.memory_growth()
    last = history.epochs[-1] if history.epochs else None
    return {
        "epochs": len(history),
        "train_loss": last.train_loss if last else None,
        "val_loss": last.val_loss if last else None,
        "val_accuracy": last.val_accuracy if last else None,
        "best_epoch": history.best_epoch,
        "stopped_early": history.stopped_early,
        "kernel_level": trainer.info["kernel_level"],
        "threads": trainer.info["threads"],
        "arena_bytes": trainer.plan.arena_bytes,
        "arena_resident_bytes": trainer.arena_resident_bytes(),
        "buffer_bytes": trainer.buffer_bytes,
        "baseline_rss_bytes": growth.baseline_bytes,
        "growth_bytes": growth.growth_bytes,
        "growth_file_bytes": growth.file_bytes,
        "peak_rss_bytes": trainer.process_peak_bytes(),
    }


def print_memory(trainer: Trainer) -> None:
    """Print predicted and measured memory side by side."""
    growth = trainer.memory_growth()
    predicted = trainer.plan.arena_bytes + trainer.buffer_bytes
    rest = growth.growth_bytes - predicted - growth.file_bytes
    rows = (
        ("arena (measured in pages)", trainer.plan.arena_bytes, trainer.arena_resident_bytes()),
        ("batch in the user's layout", trainer.buffer_bytes, None),
        ("growth of the process", predicted, growth.growth_bytes),
        ("  pages of library files", None, growth.file_bytes),
        ("  Python's objects and the data", None, max(0, rest)),
        ("before: Python and NumPy", None, growth.baseline_bytes),
        ("highest of the process", None, trainer.process_peak_bytes()),
    )
    print(f"\n{'memory':32s}{'predicted':>16s}{'measured':>16s}")
    for label, *cells in rows:
        texts = ("" if cell is None else f"{cell:,d} B" for cell in cells)
        print(f"{label:32s}" + "".join(f"{text:>16s}" for text in texts))
