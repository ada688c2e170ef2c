"""Loss functions as descriptions; the mean is always over the samples that a batch really has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from armtrain.errors import ArgumentError
from armtrain.limits import MAX_FLOAT, MIN_FLOAT, NO_LABEL
from armtrain.nn.arguments import rate, refuse_unless
from armtrain.nn.loss_base import Loss, ignored, only_mean, weights_of
from armtrain.values import real, truth

__all__ = [
    "BCEWithLogitsLoss",
    "CosineEmbeddingLoss",
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
    "parse_loss",
]


class CrossEntropyLoss(Loss):
    """Mean of -log softmax(logits)[target]; logits (N, classes), targets integers below classes.

    Of logits (N, classes, L) or (N, classes, H, W) each place of a sample has a label: targets are
    (N, L) or (N, H, W), whole numbers held as float32 (`y.astype("float32")`), and the mean is over
    places. There is no accuracy then. A network that ends with (N, L, classes) returns
    `logits.transpose(1, 2)`, which moves nothing.

    With `probabilities` targets are floats (N, classes) from 0 to 1, and the loss is the mean over
    samples of -sum target log softmax(logits). torch tells by the targets' type; a plan is made
    before there are any.

    Parameters
    ----------
    weight : sequence of float, optional
        One for each class, from 0; the mean is weighted by those of the targets, over samples
        with `probabilities`.
    size_average, reduce, reduction
        Only torch's defaults, in torch's order.
    ignore_index : int
        Samples, or places, with this label count neither for the mean nor for the accuracy. It may
        be a class or any other label, as -1, or 255 of masks; labels of places are float32, and
        theirs is from -2^24 to 2^24.
    label_smoothing : float
        Share of the target that all classes have alike, 0 to 1.
    probabilities : bool
        Targets are a probability for each class.
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
        *,
        probabilities: bool = False,
    ) -> None:
        super().__init__(
            weight=weights_of("CrossEntropyLoss: weight", weight),
            ignore_index=ignored(self, ignore_index),
            label_smoothing=rate("CrossEntropyLoss: label_smoothing", label_smoothing, 1.0),
            probabilities=truth("CrossEntropyLoss: probabilities", probabilities),
        )
        if self.options["probabilities"] and self.options["ignore_index"] != NO_LABEL:
            raise ArgumentError(
                f"CrossEntropyLoss: ignore_index={ignore_index} is a label, and with "
                "probabilities=True there are none; leave one of them out"
            )
        only_mean(self, size_average, reduce, reduction)


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
            weight=weights_of("NLLLoss: weight", weight), ignore_index=ignored(self, ignore_index)
        )
        only_mean(self, size_average, reduce, reduction)


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
        super().__init__(pos_weight=weights_of("BCEWithLogitsLoss: pos_weight", pos_weight))
        refuse_unless("BCEWithLogitsLoss: weight", weight, None)
        only_mean(self, size_average, reduce, reduction)


class _Plain(Loss):
    """A loss without options."""

    def __init__(
        self, size_average: None = None, reduce: None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        only_mean(self, size_average, reduce, reduction)


class MSELoss(_Plain):
    """Mean of (y - target)^2 over all elements; targets have the shape of y.

    Parameters
    ----------
    size_average, reduce, reduction
        Only torch's defaults, in torch's order.
    """

    word = "mse"


class L1Loss(_Plain):
    """Mean of |y - target| over all elements; targets have the shape of y.

    Parameters
    ----------
    size_average, reduce, reduction
        Only torch's defaults, in torch's order.
    """

    word = "l1"


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
        only_mean(self, size_average, reduce, reduction)


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
        only_mean(self, None, None, reduction)


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
        if not isinstance(reduction, str) or reduction != "batchmean":
            only_mean(self, size_average, reduce, reduction)
        only_mean(self, size_average, reduce, "mean")
        if not isinstance(log_target, bool):
            raise ArgumentError(f"KLDivLoss: log_target needs True or False, got {log_target!r}")


class CosineEmbeddingLoss(Loss):
    """Mean of 1 - y where the target is 1, and of max(y - margin, 0) where it is -1.

    The network returns the cosines y itself, as `functional.cosine_similarity` makes them of two
    values (N, features): shape (N, 1), as that of targets. torch's loss takes the two values.

    Parameters
    ----------
    margin : float
        Cosines of unlike pairs below it cost nothing; from -1 to 1.
    size_average, reduce, reduction
        Only torch's defaults, in torch's order.
    """

    word = "cosine_embedding"

    def __init__(
        self,
        margin: float = 0.0,
        size_average: None = None,
        reduce: None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin=real("CosineEmbeddingLoss: margin", margin, -1.0, 1.0, MIN_FLOAT))
        only_mean(self, size_average, reduce, reduction)


_LOSSES: dict[str, type[Loss]] = {
    loss.word: loss
    for loss in (
        *(CrossEntropyLoss, NLLLoss, BCEWithLogitsLoss, MSELoss),
        *(L1Loss, SmoothL1Loss, HuberLoss, KLDivLoss, CosineEmbeddingLoss),
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
