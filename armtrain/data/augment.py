"""Augmentation: random changes of training inputs, other ones in every epoch.

What happens to a sample depends on (seed, epoch, its number) alone; the numbers come from the
engine's counter-based generator (kernels/engine/augment.h), so that a resumed run and
`armtrain-run` change the samples alike, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from armtrain.errors import ArgumentError
from armtrain.limits import MIN_FLOAT
from armtrain.values import integer, real, truth

__all__ = ["FORMS", "Augment", "augment_of"]

_MOST_PIXELS, _MOST_NOISE = 65535, 1000.0

FORMS: tuple[tuple[str, str], ...] = (
    ("flip", "left and right change places, every second time"),
    ("shift=N", "moved by at most N pixels in each direction; what comes in is 0"),
    ("crop=N", "a window smaller by at most N pixels a side is stretched back, nearest pixels"),
    ("noise=S", "normal noise of standard deviation S is added to every value"),
)
"""Words of a text and what they mean."""


@dataclass(frozen=True)
class Augment:
    """Random changes of every training sample, in this order: cropped, shifted, flipped, noise.

    Samples are images (C, H, W) or signals (C, L), whose only side is L; rows (F) take noise alone.

    Parameters
    ----------
    flip : bool
        Left and right change places, every second time on average.
    shift : int
        At most so many pixels in each direction; what comes in is 0.
    crop : int
        A window whose sides are smaller by at most so many pixels is stretched back.
    noise : float
        Standard deviation of normal noise, in units of the inputs after their conversion.

    Examples
    --------
    >>> augment_of("flip,shift=2")
    Augment(flip=True, shift=2, crop=0, noise=0.0)
    """

    flip: bool = False
    shift: int = 0
    crop: int = 0
    noise: float = 0.0

    def __post_init__(self) -> None:
        """Check the values; raises ArgumentError."""
        checked = {
            "flip": truth("augment: flip", self.flip),
            "shift": integer("augment: shift", self.shift, 0, _MOST_PIXELS),
            "crop": integer("augment: crop", self.crop, 0, _MOST_PIXELS),
            "noise": real("augment: noise", self.noise, 0.0, _MOST_NOISE, MIN_FLOAT),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def augment_of(value: Any) -> Augment | None:
    """Return what a user gave: None, an `Augment`, a mapping of its arguments, or a text.

    Raises
    ------
    ArgumentError
        It is none of these, or a word or value is impossible.
    """
    if value is None or isinstance(value, Augment):
        return value
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in {f.name for f in fields(Augment)}]
        if unknown:
            raise ArgumentError(f"augment: {unknown[0]!r:.80} is unknown; {_possible()}")
        return Augment(**value)
    if isinstance(value, str):
        return _parse(value)
    raise ArgumentError(
        f"augment needs a text such as 'flip,shift=2' or an Augment, got {value!r:.80}"
    )


def _possible() -> str:
    return f"possible are {', '.join(word for word, _ in FORMS)}"


def _parse(text: str) -> Augment:
    """Return what 'flip,shift=2,noise=0.1' means."""
    given: dict[str, Any] = {}
    for item in text.split(","):
        name, equals, value = item.partition("=")
        reader = _READERS.get(name)
        if reader is None or name in given or bool(equals) == (name == "flip"):
            raise ArgumentError(
                f"augment '{text:.200}': '{item:.80}' is unknown or given twice; {_possible()}"
            )
        given[name] = reader(name, value)
    return Augment(**given)


def _whole(name: str, text: str) -> int:
    """Return a decimal integer."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_PIXELS))):
        raise ArgumentError(
            f"augment: {name} needs a whole number from 0 to {_MOST_PIXELS}, got '{text:.80}'"
        )
    return int(text)


def _decimal(name: str, text: str) -> float:
    """Return a decimal number."""
    try:
        if text.strip("0123456789.e-"):
            raise ValueError
        return float(text)
    except ValueError:
        raise ArgumentError(
            f"augment: {name} needs a number from 0 to {_MOST_NOISE:g}, got '{text:.80}'"
        ) from None


_READERS: dict[str, Callable[[str, str], Any]] = {
    "flip": lambda _name, _text: True,
    "shift": _whole,
    "crop": _whole,
    "noise": _decimal,
}
