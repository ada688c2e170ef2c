"""`armtrain predict`: outputs of saved weights for every sample."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from armtrain.cli.common import (
    Subparsers,
    add_engine_arguments,
    data_spec,
    open_trainer,
    path_text,
    print_json,
)
from armtrain.cli.parser import Parser, describe_data

if TYPE_CHECKING:
    from armtrain.runtime.trainer import Trainer

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser(
        "predict",
        help="outputs of saved weights for every sample of data",
        description="Outputs of saved weights for every sample. Without -o or --json, lines are\n"
        "printed batch by batch: an error ends them after the batches that were good.",
    )
    parser.details = (describe_data,)
    add_engine_arguments(parser)
    parser.add_argument(
        "--weights", metavar="F", type=path_text, required=True, help="safetensors file"
    )
    parser.add_argument("--data", metavar="SPEC", type=data_spec, required=True)
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT.npz",
        type=path_text,
        help="write the outputs as array y of this file, all or none",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Predict; classes go to the standard output unless a file takes the raw outputs."""
    from armtrain.data.findings import printable
    from armtrain.runtime.opening import files_of

    trainer = open_trainer(args)
    if args.output:
        count = _store(trainer, args.data, args.output)
        if args.json:
            print_json({"samples": count, "output": args.output})
        else:
            print(f"outputs of {count} samples: {args.output}")
        return 0
    labels = bool(trainer.info["n_classes"])
    values: list[object] = []
    with trainer.open(args.data) as source:
        files = files_of(source)
        for part in trainer.predict_batches(source):
            flat = (part.argmax(axis=-1) if labels else part).reshape(len(part), -1)
            for row in flat.tolist():
                value = row[0] if len(row) == 1 else row
                if not args.json:
                    file = f"{printable(files[len(values)])}\t" if files else ""
                    print(file + _text(value, trainer.classes))
                values.append(value if args.json else None)
    if args.json:
        told = {"samples": len(values), "labels" if labels else "outputs": values}
        classes = {"classes": list(trainer.classes)} if trainer.classes else {}
        print_json(told | classes | ({"files": list(files)} if files else {}))
    return 0


def _text(value: object, names: tuple[str, ...]) -> str:
    """Return a sample's line: the name of its class, its number, or its outputs."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return names[value] if isinstance(value, int) and value < len(names) else str(value)


def _store(trainer: Trainer, data: str, path: str) -> int:
    """Stream the outputs into an npz file and return the number of samples."""
    import numpy as np

    from armtrain.atomic import atomic_writer
    from armtrain.data.npy import NpzWriter

    with trainer.open(data) as source:
        shape = (source.count, *trainer.output_shape)
        with atomic_writer(path) as file, NpzWriter(file) as writer:
            writer.add("y", shape, np.dtype(np.float32), trainer.predict_batches(source))
        return source.count
