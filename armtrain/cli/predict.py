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
    trainer = open_trainer(args)
    if args.output:
        count = _store(trainer, args.data, args.output)
        if args.json:
            print_json({"samples": count, "output": args.output})
        else:
            print(f"outputs of {count} samples: {args.output}")
        return 0
    labels, names = bool(trainer.info["n_classes"]), trainer.classes
    values: list[object] = []
    for part in trainer.predict_batches(args.data):
        rows = (
            part.argmax(axis=-1).reshape(len(part), -1) if labels else part.reshape(len(part), -1)
        )
        for row in rows.tolist():
            value = row[0] if len(row) == 1 else row
            if args.json:
                values.append(value)
            elif names and isinstance(value, int):
                print(names[value] if value < len(names) else value)
            else:
                print(value if len(row) == 1 else " ".join(map(str, row)))
    if args.json:
        classes = {"classes": list(names)} if names else {}
        print_json({"samples": len(values), "labels" if labels else "outputs": values} | classes)
    return 0


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
