"""Loss functions as descriptions; the mean is always over the samples that a batch really has."""

from __future__ import annotations

from inspect import signature
from typing import Any, ClassVar

from armtrain.errors import ArgumentError
from armtrain.limits import MAX_FLOAT, MIN_FLOAT
from armtrain.nn.arguments import rate, refuse_unless
from armtrain.values import real

__all__ = [
    "CrossEntropyLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "Loss",
    "MSELoss",
    "SmoothL1Loss",
    "loss_names",
    "loss_options",
    "parse_loss",
]


class Loss:
    """Base class of loss descriptions.

    Attributes
    ----------
    word : str
        Name in texts ('smooth_l1').
    options : dict
        What a text may set: torch's argument names with this loss's values.
    """

    word: ClassVar[str]
    options: dict[str, Any]

    def __init__(self, **options: Any) -> None:
        self.options = options

    @property
    def text(self) -> str:
        """Canonical text: the name and whatever is not the default.

        Examples
        --------
        >>> SmoothL1Loss(beta=0.5).text
        'smooth_l1:beta=0.5'
        """
        defaults = type(self)().options
        shown = [
            f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in self.options.items()
            if value != defaults[name]
        ]
        return ":".join([self.word, ",".join(shown)]) if shown else self.word

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse to change an argument: it would change no plan, or only some."""
        if name in signature(type(self)).parameters:
            kind = type(self).__name__
            raise ArgumentError(
                f"{kind}: {name} is fixed once the loss is made; make another one with "
                f"nn.{kind}({name}={value!r:.80})"
            )
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Return the class and its options."""
        shown = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        """Compare kind and options."""
        return type(self) is type(other) and self.options == vars(other)["options"]

    def __hash__(self) -> int:
        """Hash kind and options."""
        return hash(self.text)


def _only_mean(loss: Loss, size_average: object, reduce: object, reduction: object) -> None:
    """Refuse torch's deprecated arguments and sums."""
    name = type(loss).__name__
    refuse_unless(f"{name}: size_average", size_average, None)
    refuse_unless(f"{name}: reduce", reduce, None)
    refuse_unless(f"{name}: reduction", reduction, "mean")


class CrossEntropyLoss(Loss):
    """Mean of -log softmax(logits)[target]; logits (N, classes), targets integers below classes.

    Parameters
    ----------
    weight, size_average, ignore_index, reduce, reduction, label_smoothing
        Only torch's defaults, in torch's order.
    """

    word = "cross_entropy"

    def __init__(
        self,
        weight: None = None,
        size_average: None = None,
        ignore_index: int = -100,
        reduce: None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        refuse_unless("CrossEntropyLoss: weight", weight, None)
        refuse_unless("CrossEntropyLoss: ignore_index", ignore_index, -100)
        _only_mean(self, size_average, reduce, reduction)
        refuse_unless("CrossEntropyLoss: label_smoothing", label_smoothing, 0.0)


class MSELoss(Loss):
    """Mean of (y - target)^2 over all elements; targets have the shape of y.

    Parameters
    ----------
    size_average, reduce, reduction
        Only torch's defaults, in torch's order.
    """

    word = "mse"

    def __init__(
        self, size_average: None = None, reduce: None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        _only_mean(self, size_average, reduce, reduction)


class L1Loss(Loss):
    """Mean of |y - target| over all elements; targets have the shape of y.

    Parameters
    ----------
    size_average, reduce, reduction
        Only torch's defaults, in torch's order.
    """

    word = "l1"

    def __init__(
        self, size_average: None = None, reduce: None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        _only_mean(self, size_average, reduce, reduction)


class SmoothL1Loss(Loss):
    """Mean of d^2 / (2 beta) where |d| < beta, else |d| - beta / 2, with d = y - target.

    Parameters
    ----------
    size_average, reduce, reduction
        Only torch's defaults, in torch's order.
    beta : float
        Where the parabola ends; 0 is `L1Loss`.
    """

    word = "smooth_l1"

    def __init__(
        self,
        size_average: None = None,
        reduce: None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(beta=rate("SmoothL1Loss: beta", beta))
        _only_mean(self, size_average, reduce, reduction)


class HuberLoss(Loss):
    """Mean of d^2 / 2 where |d| < delta, else delta (|d| - delta / 2), with d = y - target.

    Parameters
    ----------
    reduction : str
        Only 'mean'.
    delta : float
        Where the parabola ends, above 0.
    """

    word = "huber"

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(delta=real("HuberLoss: delta", delta, MIN_FLOAT, MAX_FLOAT))
        _only_mean(self, None, None, reduction)


class KLDivLoss(Loss):
    """Mean of t (log t - y): y are log-probabilities and targets t probabilities of y's shape.

    Parameters
    ----------
    size_average, reduce
        Only torch's defaults, in torch's order.
    reduction : str
        'mean' over all elements, as in torch, or 'batchmean' over samples, the divergence itself.
    log_target : bool
        Targets are logarithms of probabilities.
    """

    word = "kl_div"

    def __init__(
        self,
        size_average: None = None,
        reduce: None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(reduction=reduction, log_target=log_target)
        if reduction != "batchmean":
            _only_mean(self, size_average, reduce, reduction)
        _only_mean(self, size_average, reduce, "mean")
        if not isinstance(log_target, bool):
            raise ArgumentError(f"KLDivLoss: log_target needs True or False, got {log_target!r}")


_LOSSES: dict[str, type[Loss]] = {
    loss.word: loss
    for loss in (CrossEntropyLoss, MSELoss, L1Loss, SmoothL1Loss, HuberLoss, KLDivLoss)
}
_WORDS: dict[str, bool] = {"true": True, "false": False}


def loss_names() -> tuple[str, ...]:
    """Return the canonical names of all losses."""
    return tuple(_LOSSES)


def loss_options() -> dict[str, dict[str, Any]]:
    """Return the options of every loss, by its name, with their defaults."""
    return {word: kind().options for word, kind in _LOSSES.items()}


def _value(option: str) -> float | bool | str:
    """Return a truth value, a number, or the word itself."""
    if option in _WORDS:
        return _WORDS[option]
    try:
        return float(option)
    except ValueError:
        return option


def parse_loss(text: str) -> Loss:
    """Return the loss of a text, the inverse of `Loss.text`.

    Parameters
    ----------
    text : str
        NAME or NAME:OPTION=VALUE,... with torch's names of arguments.

    Raises
    ------
    ValueError
        Unknown name or option, or a value out of range.

    Examples
    --------
    >>> parse_loss("huber:delta=0.5")
    HuberLoss(delta=0.5)
    """
    word, _, rest = text.partition(":")
    if word not in _LOSSES:
        raise ArgumentError(f"unknown loss '{word}'; available are {', '.join(_LOSSES)}")
    kind = _LOSSES[word]
    known, options = kind().options, {}
    for item in filter(None, rest.split(",")):
        name, equals, value = item.partition("=")
        if not equals or name not in known or name in options:
            way = f"write OPTION=VALUE with {', '.join(known)}" if known else "it has no options"
            raise ArgumentError(
                f"loss '{text}': '{item}' is not an option of {word}, or given twice; {way}"
            )
        options[name] = _value(value)
    return kind(**options)
