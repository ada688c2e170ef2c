"""Loss functions as descriptions; the mean is always over the samples that a batch really has."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any, ClassVar

from armtrain.errors import ArgumentError
from armtrain.limits import MAX_DIM, MAX_FLOAT, MIN_FLOAT, NO_LABEL
from armtrain.nn.arguments import rate, refuse_unless
from armtrain.values import as_integer, real

__all__ = [
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "Loss",
    "MSELoss",
    "NLLLoss",
    "SmoothL1Loss",
    "loss_names",
    "loss_options",
    "option_text",
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
            f"{name}={option_text(value)}"
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


def option_text(value: object) -> str:
    """Return the value of an option as texts have it: 'true', '0.5', '1.0/2.0', 'none'."""
    if isinstance(value, tuple):
        return "/".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _only_mean(loss: Loss, size_average: object, reduce: object, reduction: object) -> None:
    """Refuse torch's deprecated arguments and sums."""
    name = type(loss).__name__
    refuse_unless(f"{name}: size_average", size_average, None)
    refuse_unless(f"{name}: reduce", reduce, None)
    refuse_unless(f"{name}: reduction", reduction, "mean")


def _weights(what: str, value: object) -> tuple[float, ...] | None:
    """Return a number, or a sequence or array of numbers from 0, as floats."""
    if value is None:
        return None
    plain = value.tolist() if hasattr(value, "tolist") else value
    listed = plain if isinstance(plain, list | tuple | range) else [plain]
    if not listed:
        raise ArgumentError(f"{what} is empty; give one number for each class, or None")
    weights = tuple(rate(f"{what}[{place}]", number) for place, number in enumerate(listed))
    if not any(weights):
        raise ArgumentError(f"{what} needs a number above 0, all {len(weights)} are 0")
    return weights


def _ignored(loss: Loss, value: object) -> int:
    """Return a label that does not count."""
    label = as_integer(value)
    if label is None or not (label == NO_LABEL or 0 <= label <= MAX_DIM):
        raise ArgumentError(
            f"{type(loss).__name__}: ignore_index needs a class, an integer from 0, or {NO_LABEL} "
            f"for none, got {value!r}; give samples without a class a class of their own"
        )
    return label


class CrossEntropyLoss(Loss):
    """Mean of -log softmax(logits)[target]; logits (N, classes), targets integers below classes.

    Parameters
    ----------
    weight : sequence of float, optional
        One for each class, from 0; the mean is weighted by those of the targets.
    size_average, reduce, reduction
        Only torch's defaults, in torch's order.
    ignore_index : int
        Samples of this class count neither for the mean nor for the accuracy; -100: none.
    label_smoothing : float
        Share of the target that all classes have alike, 0 to 1.
    """

    word = "cross_entropy"

    def __init__(
        self,
        weight: Sequence[float] | None = None,
        size_average: None = None,
        ignore_index: int = NO_LABEL,
        reduce: None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(
            weight=_weights("CrossEntropyLoss: weight", weight),
            ignore_index=_ignored(self, ignore_index),
            label_smoothing=rate("CrossEntropyLoss: label_smoothing", label_smoothing, 1.0),
        )
        _only_mean(self, size_average, reduce, reduction)


class NLLLoss(Loss):
    """Mean of -y[target] of log-probabilities y (N, classes); targets integers below classes.

    Parameters
    ----------
    weight, ignore_index
        As those of `CrossEntropyLoss`.
    size_average, reduce, reduction
        Only torch's defaults, in torch's order.
    """

    word = "nll"

    def __init__(
        self,
        weight: Sequence[float] | None = None,
        size_average: None = None,
        ignore_index: int = NO_LABEL,
        reduce: None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(
            weight=_weights("NLLLoss: weight", weight), ignore_index=_ignored(self, ignore_index)
        )
        _only_mean(self, size_average, reduce, reduction)


class BCEWithLogitsLoss(Loss):
    """Mean of -p t log sigmoid(y) - (1 - t) log sigmoid(-y); targets t in [0, 1], shaped like y.

    Parameters
    ----------
    weight, size_average, reduce, reduction
        Only torch's defaults, in torch's order.
    pos_weight : float or sequence of float, optional
        The p of all elements, or of each column of an output (N, columns); 1 without.
    """

    word = "bce_with_logits"

    def __init__(
        self,
        weight: None = None,
        size_average: None = None,
        reduce: None = None,
        reduction: str = "mean",
        pos_weight: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(pos_weight=_weights("BCEWithLogitsLoss: pos_weight", pos_weight))
        refuse_unless("BCEWithLogitsLoss: weight", weight, None)
        _only_mean(self, size_average, reduce, reduction)


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
    for loss in (
        *(CrossEntropyLoss, NLLLoss, BCEWithLogitsLoss, MSELoss),
        *(L1Loss, SmoothL1Loss, HuberLoss, KLDivLoss),
    )
}
_WORDS = {"true": True, "false": False, "none": None}


def loss_names() -> tuple[str, ...]:
    """Return the canonical names of all losses."""
    return tuple(_LOSSES)


def loss_options() -> dict[str, dict[str, Any]]:
    """Return the options of every loss, by its name, with their defaults."""
    return {word: kind().options for word, kind in _LOSSES.items()}


def _value(option: str) -> object:
    """Return a truth value, None, a number, a list of numbers with slashes, or the word itself."""
    if option in _WORDS:
        return _WORDS[option]
    if "/" in option:
        return [_value(part) for part in option.split("/")]
    for kind in (int, float):
        try:
            return kind(option)
        except ValueError:
            continue
    return option


def parse_loss(text: str) -> Loss:
    """Return the loss of a text, the inverse of `Loss.text`.

    Parameters
    ----------
    text : str
        NAME or NAME:OPTION=VALUE,... with torch's names of arguments; several numbers have
        slashes between them, as in 'nll:weight=1/2/0.5'.

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
