"""Loss functions as descriptions; the mean is always over the samples that a batch really has."""

from __future__ import annotations

from inspect import signature
from typing import ClassVar

from armtrain.errors import ArgumentError
from armtrain.nn.arguments import refuse_unless

__all__ = ["CrossEntropyLoss", "Loss", "MSELoss", "loss_names", "parse_loss"]


class Loss:
    """Base class; `text` is the canonical name on command lines and in plans."""

    text: ClassVar[str]

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
        """Return the class."""
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        """Compare by kind: losses have no parameters."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """Hash by kind."""
        return hash(type(self))


class CrossEntropyLoss(Loss):
    """Mean of -log softmax(logits)[target]; logits (N, classes), targets integers below classes.

    Parameters
    ----------
    weight, size_average, ignore_index, reduce, reduction, label_smoothing
        Only torch's defaults, in torch's order.
    """

    text = "cross_entropy"

    def __init__(
        self,
        weight: None = None,
        size_average: None = None,
        ignore_index: int = -100,
        reduce: None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        refuse_unless("CrossEntropyLoss: weight", weight, None)
        refuse_unless("CrossEntropyLoss: size_average", size_average, None)
        refuse_unless("CrossEntropyLoss: ignore_index", ignore_index, -100)
        refuse_unless("CrossEntropyLoss: reduce", reduce, None)
        refuse_unless("CrossEntropyLoss: reduction", reduction, "mean")
        refuse_unless("CrossEntropyLoss: label_smoothing", label_smoothing, 0.0)


class MSELoss(Loss):
    """Mean of (y - target)^2 over all elements; targets have the shape of y.

    Parameters
    ----------
    size_average, reduce, reduction
        Only torch's defaults, in torch's order.
    """

    text = "mse"

    def __init__(
        self, size_average: None = None, reduce: None = None, reduction: str = "mean"
    ) -> None:
        refuse_unless("MSELoss: size_average", size_average, None)
        refuse_unless("MSELoss: reduce", reduce, None)
        refuse_unless("MSELoss: reduction", reduction, "mean")


_LOSSES: tuple[type[CrossEntropyLoss] | type[MSELoss], ...] = (CrossEntropyLoss, MSELoss)


def loss_names() -> tuple[str, ...]:
    """Return the canonical names of all losses."""
    return tuple(loss.text for loss in _LOSSES)


def parse_loss(text: str) -> Loss:
    """Return the loss of a canonical name.

    Raises
    ------
    ValueError
        Unknown name.

    Examples
    --------
    >>> parse_loss("cross_entropy")
    CrossEntropyLoss()
    """
    for loss in _LOSSES:
        if loss.text == text:
            return loss()
    raise ArgumentError(f"unknown loss '{text}'; available are {', '.join(loss_names())}")
