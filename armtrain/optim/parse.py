"""Optimisers from text: 'sgd:lr=0.01,momentum=0.9'."""

from __future__ import annotations

from typing import Any

from armtrain.errors import ArgumentError
from armtrain.optim.adagrad import Adagrad
from armtrain.optim.adam import Adam, AdamW
from armtrain.optim.base import Optimizer
from armtrain.optim.rmsprop import RMSprop
from armtrain.optim.sgd import SGD

__all__ = ["optimizer_options", "parse_group", "parse_optimizer"]

_OPTIMIZERS: dict[str, type[Optimizer]] = {
    kind.word: kind for kind in (SGD, Adam, AdamW, RMSprop, Adagrad)
}
_WORDS = {"true": True, "false": False}


def optimizer_options() -> dict[str, tuple[tuple[str, float | bool], ...]]:
    """Return the options of every optimiser, by its name, with their defaults."""
    return {word: tuple(kind().items()) for word, kind in _OPTIMIZERS.items()}


def _value(what: str, name: str, option: str, flag: bool) -> float | bool:
    """Return a number, or for a flag a truth value."""
    if flag and option not in _WORDS:
        words = " or ".join(_WORDS)
        raise ArgumentError(f"{what}: {name} needs {words}, got '{option}'")
    try:
        return _WORDS[option] if flag else float(option)
    except ValueError:
        raise ArgumentError(f"{what}: '{option}' is not a number") from None


def parse_optimizer(text: str) -> Optimizer:
    """Return the optimiser of a text, the inverse of `Optimizer.text`.

    Parameters
    ----------
    text : str
        NAME or NAME:OPTION=VALUE,...; betas are 'beta1' and 'beta2'.

    Raises
    ------
    ValueError
        Unknown name or option, or a value out of range.

    Examples
    --------
    >>> parse_optimizer("adam:lr=0.002,beta1=0.8")
    Adam(lr=0.002, betas=(0.8, 0.999), eps=1e-08, weight_decay=0.0)
    """
    if not isinstance(text, str):
        raise ArgumentError(
            f"an optimizer's text is a str such as 'sgd:lr=0.01', got {type(text).__name__}; "
            "armtrain.plan takes optim.SGD(...) itself"
        )
    word, _, rest = text.partition(":")
    if word not in _OPTIMIZERS:
        raise ArgumentError(f"unknown optimizer '{word}'; available are {', '.join(_OPTIMIZERS)}")
    kind = _OPTIMIZERS[word]
    return kind(**_options(f"optimizer '{text}'", rest, kind()))


def parse_group(text: str, base: Optimizer) -> dict[str, Any]:
    """Return a parameter group of `armtrain.plan` from text.

    Parameters
    ----------
    text : str
        PATTERN or PATTERN:OPTION=VALUE,...; options as in an optimiser's text.
    base : Optimizer
        What the group's options replace.

    Raises
    ------
    ArgumentError
        No pattern, an unknown option, or a value out of range.

    Examples
    --------
    >>> parse_group("*.bias:weight_decay=0", SGD(lr=0.1))
    {'params': '*.bias', 'weight_decay': 0.0}
    """
    pattern, _, rest = text.partition(":")
    if not pattern:
        raise ArgumentError(f"group '{text}' needs a pattern of parameter names before ':'")
    options = _options(f"group '{text}'", rest, base)
    base.with_options(**options)
    return {"params": pattern, **options}


def _options(what: str, rest: str, base: Optimizer) -> dict[str, Any]:
    """Return the options of 'OPTION=VALUE,...'; a beta alone leaves the other as in `base`."""
    known = dict(base.items())
    options: dict[str, Any] = {}
    for item in filter(None, rest.split(",")):
        name, equals, value = item.partition("=")
        if not equals or name not in known or name in options:
            raise ArgumentError(
                f"{what}: '{item}' is not an option of {base.word}, or given twice; write "
                f"OPTION=VALUE with {', '.join(known)}"
            )
        options[name] = _value(what, name, value, isinstance(known[name], bool))
    names = ("beta1", "beta2")
    if options.keys() & set(names):
        options["betas"] = tuple(options.pop(name, known[name]) for name in names)
    return options
