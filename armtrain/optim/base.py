"""What all optimisers share: keyword-only values with a canonical text."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from armtrain.errors import ArgumentError
from armtrain.limits import MAX_FLOAT, MIN_FLOAT
from armtrain.values import real

__all__ = ["Optimizer", "number"]


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """Base class of optimiser descriptions.

    Attributes
    ----------
    word : str
        Name in texts ('sgd').
    lr : float
        Learning rate.
    """

    word: ClassVar[str]
    lr: float = 1e-3

    def __new__(cls, *args: object, **_: object) -> Self:
        """Refuse positional arguments with the reason."""
        if args:
            raise TypeError(
                f"optim.{cls.__name__} takes keyword arguments only and no parameters, as in "
                f"optim.{cls.__name__}(lr=0.01); which parameters train is decided by "
                "requires_grad_(), groups go to armtrain.plan(param_groups=...)"
            )
        return super().__new__(cls)

    def with_options(self, **options: Any) -> Self:
        """Return a copy with other hyper-parameters, checked like the constructor's."""
        known = [f.name for f in fields(self)]
        for name in options:
            if name not in known:
                raise ArgumentError(f"{self.title} has no '{name}'; it has {', '.join(known)}")
        return replace(self, **options)

    def items(self) -> tuple[tuple[str, float | bool], ...]:
        """Return (name, value) of every hyper-parameter as texts name them."""
        return tuple((f.name, getattr(self, f.name)) for f in fields(self))

    @property
    def title(self) -> str:
        """Name in messages ('optim.SGD')."""
        return f"optim.{type(self).__name__}"

    @property
    def text(self) -> str:
        """Canonical text: the learning rate and whatever is not the default.

        Examples
        --------
        >>> from armtrain import optim
        >>> optim.SGD(lr=0.01, momentum=0.9).text
        'sgd:lr=0.01,momentum=0.9'
        """
        defaults = dict(type(self)().items())
        shown = [
            f"{name}={_value_text(value)}"
            for name, value in self.items()
            if name == "lr" or value != defaults[name]
        ]
        return f"{self.word}:{','.join(shown)}"


def _value_text(value: float | bool) -> str:
    """Return 'true', 'false' or the shortest text that gives the same double."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def number(optimizer: Optimizer, name: str, low: float = 0.0, high: float = MAX_FLOAT) -> None:
    """Replace a field by its value as a float; refuse what is no number or too small or large."""
    what = f"{optimizer.title}: {name}"
    value = real(what, getattr(optimizer, name), low, high, MIN_FLOAT)
    object.__setattr__(optimizer, name, value)
