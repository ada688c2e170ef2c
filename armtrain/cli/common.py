"""What several verbs share: argument types and output."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from armtrain.errors import ArgumentError, ArmtrainError, DataError
from armtrain.limits import MAX_DIM
from armtrain.words import OPTIONS

if TYPE_CHECKING:
    from armtrain.data.augment import Augment
    from armtrain.optim.lr_scheduler import LRScheduler
    from armtrain.runtime.history import EpochRecord
    from armtrain.runtime.progress import Progress
    from armtrain.runtime.trainer import Trainer

__all__ = [
    "MOST_U32",
    "Subparsers",
    "UsageError",
    "add_engine_arguments",
    "at_least",
    "augment",
    "data_spec",
    "json_progress",
    "kernel_level",
    "open_trainer",
    "path_text",
    "positive",
    "print_json",
    "schedule",
    "shape",
    "size_bytes",
]

MOST_U32, MOST_U64 = 2**32 - 1, 2**64 - 1
_MOST_DIGITS = 1000  # Python refuses to read some thousands

Subparsers = Any
"""The value of `ArgumentParser.add_subparsers`, whose class argparse keeps private."""


class UsageError(ArmtrainError):
    """The command line makes no sense."""

    exit_code = 2


def print_json(value: object) -> None:
    """Write one JSON object on one line of the standard output."""
    print(json.dumps(value), flush=True)


def at_least(smallest: int, largest: int = MOST_U64) -> Any:
    """Return an argument type: a decimal integer from `smallest` to `largest`."""

    def parse(text: str) -> int:
        digits = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
        value = int(text) if digits else -1
        if not smallest <= value <= largest:
            raise argparse.ArgumentTypeError(
                f"'{text:.60}' is no whole number of at least {smallest} and at most {largest}"
            )
        return value

    return parse


def positive(text: str) -> float:
    """Argument type: a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
    return value


def path_text(text: str) -> str:
    """Argument type: the name of a file or directory, which is never empty."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name is no file or directory")
    return text


def shape(text: str) -> tuple[int, ...]:
    """Argument type: '3x32x32' to (3, 32, 32)."""
    parts = text.lower().split("x")
    if not all(p.isdecimal() and len(p) <= 10 and 0 < int(p) <= MAX_DIM for p in parts):
        raise argparse.ArgumentTypeError(f"'{text}' is no shape; write it as 3x32x32")
    return tuple(map(int, parts))


def kernel_level(text: str) -> str:
    """Argument type: the name of a kernel level; whether it runs here is the engine's to say."""
    from armtrain.board.levels import level_names

    if text not in level_names():
        known = ", ".join(level_names())
        raise argparse.ArgumentTypeError(f"'{text}' is no kernel level; there are {known}")
    return text


def size_bytes(text: str) -> int:
    """Argument type: '512 KiB' or '1000000' to bytes."""
    from armtrain.memory.budget import parse_bytes

    try:
        return parse_bytes(text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def data_spec(text: str) -> str:
    """Argument type: a data SPEC whose form is right."""
    from armtrain.data import parse_spec

    try:
        parse_spec(text)
    except DataError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def augment(text: str) -> Augment | None:
    """Argument type: random changes of training inputs."""
    from armtrain.data.augment import augment_of

    try:
        return augment_of(text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def schedule(text: str) -> Sequence[LRScheduler]:
    """Argument type: learning-rate schedules."""
    from armtrain.optim.lr_scheduler import parse_schedule

    try:
        return parse_schedule(text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every verb that runs a plan takes."""
    parser.add_argument("plan", metavar="F.plan", help="plan file")
    parser.add_argument(
        "--threads", type=at_least(1, MOST_U32), default=0, help="at most the planned number"
    )
    parser.add_argument(
        "--kernel-level", type=kernel_level, metavar="L", help="kernels to use instead of the best"
    )
    parser.add_argument("--seed", type=at_least(0), default=0, help="key of everything random")


def open_trainer(args: argparse.Namespace) -> Trainer:
    """Open the engine and load weights if the user named some."""
    from armtrain.runtime.trainer import Trainer

    trainer = Trainer(
        args.plan, seed=args.seed, threads=args.threads, kernel_level=args.kernel_level
    )
    if args.weights is not None:
        trainer.load(args.weights)
    return trainer


def json_progress() -> Progress:
    """Return a receiver that writes each epoch as JSON when it ends, and remarks as errors."""
    from armtrain.runtime.progress import Quiet

    class JsonLines(Quiet):
        """One JSON object an epoch."""

        def end(self, epochs: int, record: EpochRecord) -> None:
            """Write the epoch; a stream that fails is told of when the command ends."""
            with suppress(OSError):
                print_json(record.to_json_dict())

    return JsonLines(sys.stderr, OPTIONS)
