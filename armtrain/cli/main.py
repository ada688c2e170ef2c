"""Entry point of `armtrain`: parse, run a verb, turn errors into messages and exit codes.

0 ok, 1 failed, 2 usage, 3 does not fit, 4 device or storage, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress

from armtrain import __version__
from armtrain.cli import (
    bench,
    boards,
    check,
    check_data,
    convert_data,
    demo,
    doctor,
    evaluate,
    inspect,
    pack,
    plan,
    predict,
    train,
)
from armtrain.cli.common import UsageError, print_json
from armtrain.cli.output import Output, watched_output
from armtrain.cli.parser import Parser, UsageExit
from armtrain.cli.targets import check_files
from armtrain.errors import ArmtrainError
from armtrain.files import explain
from armtrain.runtime.measure import read_memory

__all__ = ["build_parser", "main"]

VERBS = (
    demo,
    plan,
    inspect,
    check,
    train,
    evaluate,
    predict,
    check_data,
    convert_data,
    pack,
    boards,
    doctor,
    bench,
)
_TRACEBACK = "ARMTRAIN_TRACEBACK"
_OFF = ("", "0", "false", "no", "off")


def build_parser() -> Parser:
    """Return the parser of all verbs."""
    parser = Parser(
        prog="armtrain",
        description="Train neural networks inside a memory budget that is known to the byte.",
        epilog="armtrain VERB --help explains a verb; armtrain demo shows a complete run.\n\n"
        "exit codes: 0 ok, 1 failed, 2 usage, 3 does not fit, 4 device or storage\n\n"
        "environment:\n"
        f"  {_TRACEBACK}=1  show Python's traceback of an error\n"
        "  ARMTRAIN_CPU=LEVEL    use these kernels (armtrain doctor lists them)",
    )
    parser.add_argument("--version", action="version", version=f"armtrain {__version__}")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb in VERBS:
        added = verb.add_parser(subparsers)
        lines = getattr(verb, "JSON_LINES", "one object")
        added.add_argument("--json", action="store_true", help=f"print only JSON: {lines}")
        added.set_defaults(run=verb.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.
    """
    with watched_output() as output:
        try:
            code = _run(build_parser().parse_args(argv), output)
        except SystemExit as leaving:
            if isinstance(leaving, UsageExit) and "--json" in (sys.argv if argv is None else argv):
                _print_refusal(leaving.message, UsageError.exit_code)
            code = output.exit_code(int(leaving.code or 0))
            if output.failure is None:
                raise
            return code
    return output.exit_code(code)


def _run(args: argparse.Namespace, output: Output) -> int:
    """Run a verb and return the exit code, 0 also when only the output failed."""
    try:
        check_files(args)
        code: int = args.run(args)
    except KeyboardInterrupt:
        return _refuse(args, "interrupted", 130)
    except Exception as error:
        if error is output.failure:
            return 0
        if os.environ.get(_TRACEBACK, "").lower() not in _OFF:
            raise
        return _refuse(args, *_explain(error))
    return code


def _explain(error: Exception) -> tuple[str, int]:
    """Return the message and exit code of an exception."""
    if isinstance(error, ArmtrainError):
        return str(error), error.exit_code
    if isinstance(error, MemoryError):
        return _explain_memory(error), 3
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{explain(error)}", 4
    return (
        f"this is a defect in armtrain ({type(error).__name__}: {error}); "
        f"{_TRACEBACK}=1 in the environment shows where",
        1,
    )


def _explain_memory(error: MemoryError) -> str:
    """Return what was asked for, where Python says so, and what this process has and may have."""
    asked = f" ({error})" if str(error) else ""
    now = read_memory()
    limits = [
        f"{name} is {soft} bytes"
        for name in ("RLIMIT_AS", "RLIMIT_DATA")
        if (soft := resource.getrlimit(getattr(resource, name))[0]) != resource.RLIM_INFINITY
    ]
    bounds = "; ".join(limits) or "no limit of this process is set, the machine's memory is used up"
    return (
        f"memory is exhausted{asked}: the process has {now.resident_bytes} bytes resident, at most "
        f"{now.peak_bytes}; {bounds}: plan with a smaller batch, or raise the limit (ulimit -v, -d)"
    )


def _refuse(args: argparse.Namespace, message: str, code: int) -> int:
    """Print one message, and with --json one object, and return the code."""
    print(f"armtrain {args.verb}: {message}", file=sys.stderr)
    if args.json:
        _print_refusal(message, code)
    return code


def _print_refusal(message: str, code: int) -> None:
    """Print the object that ends every command with --json that failed."""
    with suppress(OSError):
        print_json({"error": message, "exit_code": code})


if __name__ == "__main__":
    sys.exit(main())
