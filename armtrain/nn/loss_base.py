"""What all losses share: options under torch's names, a canonical text, checks of arguments."""

from __future__ import annotations

from collections.abc import Collection
from inspect import signature
from typing import Any, ClassVar

from armtrain.errors import ArgumentError
from armtrain.limits import MAX_LABEL, MIN_LABEL
from armtrain.nn.arguments import rate, refuse_unless
from armtrain.values import as_integer, known_kind

__all__ = ["Loss", "ignored", "only_mean", "option_text", "plain_loss", "weights_of"]


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
        object.__setattr__(self, "options", options)

    @property
    def text(self) -> str:
        """Canonical text: the name and whatever is not the default.

        Examples
        --------
        >>> SmoothL1Loss(beta=0.5).text
        'smooth_l1:beta=0.5'
        """
        defaults = _kind(type(self))().options
        shown = [
            f"{name}={option_text(value)}"
            for name, value in self.options.items()
            if value != defaults[name]
        ]
        return ":".join([self.word, ",".join(shown)]) if shown else self.word

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse what would change no plan, or only some: an argument, or code."""
        kind = _kind(type(self))
        title = f"nn.{kind.__name__}"
        if name in signature(kind).parameters:
            raise ArgumentError(
                f"{kind.__name__}: {name} is fixed once the loss is made; make another one with "
                f"{title}({name}={value!r:.80})"
            )
        if callable(value):
            raise ArgumentError(f"{kind.__name__}: '{name}' {_no_effect(kind)}")
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


def _kind(derived: type[Loss]) -> type[Loss]:
    """Return the loss that a class is or derives from, `Loss` itself if none."""
    return next((kind for kind in derived.__mro__ if "word" in vars(kind)), Loss)


def _no_effect(kind: type[Loss]) -> str:
    """Say why code beside a loss is refused, and what would work."""
    return (
        "would have no effect: plans hold a loss's options and no code. Let the network's own "
        f"forward compute what the loss shall see, and pass nn.{kind.__name__}(...) itself"
    )


def plain_loss(loss: Loss, kinds: Collection[type[Loss]]) -> Loss | None:
    """Return an instance of a user's subclass as one of the class itself.

    Parameters
    ----------
    loss : Loss
    kinds : collection of type
        The losses that are known.

    Returns
    -------
    Loss or None
        None: it is an instance of none of them.

    Raises
    ------
    ArgumentError
        The subclass defines something that would have no effect.
    """
    kind, owners = known_kind(loss, kinds)
    if kind is None or not owners:
        return None if kind is None else loss
    for owner in owners:
        for name in vars(owner):
            if name == "__call__" or not name.startswith("_"):
                raise ArgumentError(
                    f"{owner.__name__}, a subclass of nn.{kind.__name__}, defines '{name}', which "
                    f"{_no_effect(kind)}, or leave '{name}' out"
                )
    return kind(**loss.options)


def option_text(value: object) -> str:
    """Return the value of an option as texts have it: 'true', '0.5', '1.0/2.0', 'none'."""
    if isinstance(value, tuple):
        return "/".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def only_mean(loss: Loss, size_average: object, reduce: object, reduction: object) -> None:
    """Refuse torch's deprecated arguments and sums."""
    name = type(loss).__name__
    refuse_unless(f"{name}: size_average", size_average, None)
    refuse_unless(f"{name}: reduce", reduce, None)
    refuse_unless(f"{name}: reduction", reduction, "mean")


def weights_of(what: str, value: object) -> tuple[float, ...] | None:
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


def ignored(loss: Loss, value: object) -> int:
    """Return a label that does not count, of a class or not."""
    label = as_integer(value)
    if label is None or not MIN_LABEL <= label <= MAX_LABEL:
        raise ArgumentError(
            f"{type(loss).__name__}: ignore_index needs an integer from {MIN_LABEL} to "
            f"{MAX_LABEL}, got {value!r}; give the label of samples that do not count"
        )
    return label
