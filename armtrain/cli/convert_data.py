"""`armtrain convert-data`: any data as a stored npz file, which `armtrain-run` reads in place."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from armtrain.cli.common import Subparsers, UsageError, data_spec, path_text, print_json
from armtrain.cli.parser import Parser, describe_data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from armtrain.data.about import About
    from armtrain.data.columns import Column

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser(
        "convert-data", help="write data as an uncompressed npz file for armtrain-run"
    )
    parser.details = (describe_data,)
    parser.add_argument("data", metavar="SPEC", type=data_spec)
    parser.add_argument("-o", "--output", metavar="F.npz", type=path_text, required=True)
    parser.add_argument(
        "--like",
        metavar="F",
        type=path_text,
        help="number classes and prepare inputs as for a training: its npz file, manifest or "
        "weights",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Convert: x becomes float32 or stays uint8, y becomes int32 or float32."""
    from armtrain.atomic import atomic_writer
    from armtrain.data.findings import Opening
    from armtrain.data.npy import NpzWriter
    from armtrain.data.npz import ABOUT_MEMBER
    from armtrain.data.spec import open_table, parse_spec

    spec = parse_spec(args.data)
    if spec.kind == "random":
        raise UsageError(
            "SPEC: random: data have no shape of their own; armtrain-run makes them itself: "
            f"--data {args.data}"
        )
    opening = Opening(like=None if args.like is None else _about_of(args.like))
    with open_table(spec, opening) as source:
        columns = {"x": source.x} if source.y is None else {"x": source.x, "y": source.y}
        kinds = {name: _stored_dtype(name, column) for name, column in columns.items()}
        if opening.like is not None and source.about is None:
            raise UsageError(
                f"--like: {args.data} has no class names and preparation; leave it out"
            )
        about = None if source.about is None else _kept(source.about)
        with atomic_writer(args.output) as file, NpzWriter(file) as writer:
            if about is not None:
                writer.add_text(ABOUT_MEMBER, about)
            for name, column in columns.items():
                shape = (column.count, *column.row_shape)
                writer.add(name, shape, kinds[name], _blocks(column, kinds[name]))
        shapes = {n: [c.count, *c.row_shape] for n, c in columns.items()}
    if args.json:
        types = {name: str(kind) for name, kind in kinds.items()}
        classes = list(source.about.classes) if source.about else []
        print_json({"output": args.output, "shapes": shapes, "dtypes": types, "classes": classes})
    else:
        for note in source.notes:
            if "convert-data" not in note:  # the advice to do what has just been done
                print(f"note: {note}")
        for name, kind in kinds.items():
            print(f"{args.output}: {name} {kind} {'x'.join(map(str, shapes[name]))}")
    return 0


def _about_of(path: str) -> About:
    """Return class names and preparation that a file of a training keeps.

    Raises
    ------
    DataError
        It keeps none.
    StorageError
        It cannot be read.
    """
    from armtrain.data.manifest import read_manifest
    from armtrain.data.npz import read_about
    from armtrain.errors import DataError
    from armtrain.files import open_regular
    from armtrain.runtime.opening import about_of_weights

    with open_regular(path) as file:
        head = file.read(2)
    if head == b"PK":
        about = read_about(path)
    elif head[:1] == b"{":
        about = read_manifest(path).about
    else:
        about = about_of_weights(path)
    if about is None:
        raise DataError(
            f"{path} keeps no class names and preparation: they come from csv:, folder: and wav: "
            "data; leave --like out"
        )
    return about


def _kept(about: About) -> str:
    """Return the text that the file keeps; refuse what armtrain-run could not read."""
    from armtrain.data.npz import MAX_ABOUT_BYTES
    from armtrain.errors import DataError

    text = about.to_text()
    if len(text) > MAX_ABOUT_BYTES:
        raise DataError(
            f"the names of {len(about.classes)} classes and the columns take {len(text)} B, "
            f"{MAX_ABOUT_BYTES} B are possible: use fewer or shorter names"
        )
    return text


def _stored_dtype(name: str, column: Column) -> np.dtype[Any]:
    """Return the element type to store; refuse what training would refuse.

    Integer inputs but uint8 are indices or nothing: the plan that they are for will tell.
    """
    import numpy as np

    from armtrain.data.convert import check_float_dtype

    if column.dtype.kind in "iub" and (name == "y" or column.dtype != np.uint8):
        return np.dtype(np.int32)
    check_float_dtype(column, bytes_allowed=name == "x")
    return np.dtype(np.uint8 if column.dtype == np.uint8 else np.float32)


def _blocks(column: Column, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    """Yield all rows converted, about a mebibyte at a time."""
    import numpy as np

    from armtrain.data.columns import blocks
    from armtrain.errors import DataError

    for _, raw in blocks(column):
        if dtype == np.int32 and raw.size and not _fits_int32(raw):
            raise DataError(
                f"{column.name} has integers from {raw.min()} to {raw.max()}, beyond 32 bits; "
                "number what they stand for from 0"
            )
        with np.errstate(over="ignore"):  # infinite is what training would see, too
            block = raw.astype(dtype)
        yield block


def _fits_int32(labels: NDArray[Any]) -> bool:
    return int(labels.min()) >= -(2**31) and int(labels.max()) < 2**31
