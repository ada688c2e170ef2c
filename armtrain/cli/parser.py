"""The parser of the command line: errors of one line, and help made from the code's own tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

__all__ = [
    "Parser",
    "UsageExit",
    "describe_augment",
    "describe_data",
    "describe_losses",
    "describe_metrics",
    "describe_models",
    "describe_optimizers",
    "describe_schedules",
]


class UsageExit(SystemExit):
    """The end of a program whose command line makes no sense; `message` was printed."""

    def __init__(self, message: str) -> None:
        """Exit with code 2."""
        super().__init__(2)
        self.message = message


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, as armtrain-run's, and that guesses nothing.

    Attributes
    ----------
    details : tuple of callable
        Return paragraphs of help; called only when help is asked for, since they load tables.
    """

    details: tuple[Callable[[], str], ...] = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take what ArgumentParser takes."""
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is, and exit."""
        text = f"{message}; see {self.prog} --help"
        print(f"{self.prog}: {text}", file=sys.stderr)
        raise UsageExit(text)

    def format_help(self) -> str:
        """Return the help with the details at its end."""
        if self.details:
            self.epilog = "\n\n".join(make() for make in self.details)
        return super().format_help()


def _table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return a title and rows of two columns."""
    listed = list(rows)
    width = max(len(name) for name, _ in listed)
    return "\n".join([f"{title}:", *(f"  {n:{width}s}  {text}".rstrip() for n, text in listed)])


def describe_models() -> str:
    """Return what MODEL may be."""
    from armtrain.zoo.registry import ENTRIES

    rows = [(f"zoo:{name}", entry.summary) for name, entry in ENTRIES.items()]
    return _table("MODEL", [*rows, ("FILE.py:NAME", "a callable of yours that returns a Module")])


def describe_losses() -> str:
    """Return what --loss may be."""
    from armtrain.nn.loss_base import option_text
    from armtrain.nn.losses import loss_options

    rows = (
        (word, ",".join(f"{key}={option_text(value)}" for key, value in items.items()))
        for word, items in loss_options().items()
    )
    return _table(
        "--loss NAME or NAME:OPTION=VALUE,..., weights as in 1/2/0.5, where defaults are", rows
    )


def describe_optimizers() -> str:
    """Return what --optimizer may be, with the defaults of every option."""
    from armtrain.optim.parse import optimizer_options

    rows = (
        (word, ",".join(f"{key}={str(value).lower()}" for key, value in items))
        for word, items in optimizer_options().items()
    )
    return _table("--optimizer NAME:OPTION=VALUE,..., where defaults are", rows)


def describe_schedules() -> str:
    """Return what --schedule may be, with the defaults of every option."""
    from armtrain.optim.lr_scheduler import schedule_options

    title = (
        "--schedule NAME:OPTION=VALUE,...[+NAME:...], factors of the learning rates that are\n"
        "multiplied; time counts epochs, with interval=step steps (one_cycle's own); defaults are"
    )
    return _table(title, schedule_options())


def describe_augment() -> str:
    """Return what --augment may be."""
    from armtrain.data.augment import FORMS

    return _table(
        "--augment WORD,..., of images (C, H, W) and signals (C, L); rows take noise", FORMS
    )


def describe_data() -> str:
    """Return what SPEC may be."""
    from armtrain.data.spec import FORMS, OPTIONS

    tables = [_table("SPEC", FORMS)]
    for kind, options in OPTIONS.items():
        rows = ((f"{name}=", option.help) for name, option in options.items())
        tables.append(_table(f"options of {kind}:, as in {kind}:PATH?bad=skip", rows))
    return "\n\n".join(tables)


def describe_metrics() -> str:
    """Return what --metrics may name."""
    from armtrain.runtime.metrics import FORMS

    return _table("--metrics NAME,...", FORMS)
