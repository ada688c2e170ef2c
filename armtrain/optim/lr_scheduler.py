"""Learning-rate schedules with the names and formulas of `torch.optim.lr_scheduler`.

A schedule is a factor of the plan's learning rates, those of all parameter groups alike, and a
function of time alone: of complete epochs, as scripts that call torch's `step()` once an epoch, or
of optimiser steps (`interval="step"`). `ReduceLROnPlateau` alone follows what is measured. Where
torch takes a learning rate, a factor is taken here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

from armtrain.errors import ArgumentError
from armtrain.limits import MAX_EPOCHS
from armtrain.optim.derived import plain
from armtrain.values import integer, real

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LRScheduler",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "StepLR",
    "check_schedule",
    "parse_schedule",
    "schedule_options",
]

MOST_SCHEDULES, MOST_MILESTONES = 4, 16
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("factor", "start_factor", "end_factor", "eta_min_factor"), (0.0, 1.0)),
    **dict.fromkeys(("threshold", "min_factor"), (0.0, 1.0)),
    "gamma": (0.0, 1.0),
    "pct_start": (0.0, 1.0 - 2.0**-20),
    **dict.fromkeys(("div_factor", "final_div_factor"), (1.0, 1e9)),
}
"""Option that is a number -> its range."""
_WHOLE: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("total_iters", "step_size", "T_max"), (1, MAX_EPOCHS)),
    "power": (1, 1000),
    "patience": (0, MAX_EPOCHS - 1),
    "cooldown": (0, MAX_EPOCHS),
    "total_steps": (2, MAX_EPOCHS),
}
"""Option that is a whole number -> its range."""


@dataclass(frozen=True, kw_only=True)
class LRScheduler:
    """Base class of schedules.

    Attributes
    ----------
    word : str
        Name in texts ('step').
    interval : str
        'epoch' or 'step': what time counts.
    """

    word: ClassVar[str]
    interval: str = "epoch"

    def __post_init__(self) -> None:
        """Check the values by their ranges."""
        title = f"optim.lr_scheduler.{type(self).__name__}"
        if self.interval not in ("epoch", "step"):
            raise ArgumentError(f"{title}: interval needs 'epoch' or 'step', got {self.interval!r}")
        for name in self.options():
            value: object = getattr(self, name)
            if name in _WHOLE:
                value = integer(f"{title}: {name}", value, *_WHOLE[name])
            elif name in _RANGES:
                value = real(f"{title}: {name}", value, *_RANGES[name])
            else:
                value = _milestones(f"{title}: {name}", value)
            object.__setattr__(self, name, value)

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Return the names of the options besides the interval, in order."""
        return tuple(f.name for f in fields(cls) if f.name != "interval")

    def values(self) -> tuple[float, ...]:
        """Return the options that are one number, in order."""
        return tuple(float(getattr(self, n)) for n in self.options() if n != "milestones")


def _milestones(what: str, value: Any) -> tuple[int, ...]:
    """Return times as integers."""
    given = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if not 1 <= len(given) <= MOST_MILESTONES:
        raise ArgumentError(f"{what} needs 1 to {MOST_MILESTONES} integers, got {value!r:.80}")
    return tuple(integer(f"{what}[{i}]", time, 1, MAX_EPOCHS) for i, time in enumerate(given))


@dataclass(frozen=True, kw_only=True)
class ConstantLR(LRScheduler):
    """`factor` until `total_iters`, then 1.

    Parameters
    ----------
    factor : float
    total_iters : int
    interval : str
        'epoch' or 'step': what time counts.
    """

    word: ClassVar[str] = "constant"
    factor: float = 1.0 / 3.0
    total_iters: int = 5


@dataclass(frozen=True, kw_only=True)
class LinearLR(LRScheduler):
    """A straight line from `start_factor` to `end_factor` at `total_iters`: the warm-up.

    Parameters
    ----------
    start_factor, end_factor : float
    total_iters : int
    interval : str
        'epoch' or 'step': what time counts.
    """

    word: ClassVar[str] = "linear"
    start_factor: float = 1.0 / 3.0
    end_factor: float = 1.0
    total_iters: int = 5


@dataclass(frozen=True, kw_only=True)
class StepLR(LRScheduler):
    """Times `gamma` every `step_size`.

    Parameters
    ----------
    step_size : int
    gamma : float
        At most 1.
    interval : str
        'epoch' or 'step': what time counts.
    """

    word: ClassVar[str] = "step"
    step_size: int
    gamma: float = 0.1


@dataclass(frozen=True, kw_only=True)
class MultiStepLR(LRScheduler):
    """Times `gamma` at every one of `milestones`.

    Parameters
    ----------
    milestones : sequence of int
        At most 16.
    gamma : float
        At most 1.
    interval : str
        'epoch' or 'step': what time counts.
    """

    word: ClassVar[str] = "multistep"
    milestones: Sequence[int]
    gamma: float = 0.1


@dataclass(frozen=True, kw_only=True)
class ExponentialLR(LRScheduler):
    """Times `gamma` every time.

    Parameters
    ----------
    gamma : float
        At most 1.
    interval : str
        'epoch' or 'step': what time counts.
    """

    word: ClassVar[str] = "exponential"
    gamma: float


@dataclass(frozen=True, kw_only=True)
class PolynomialLR(LRScheduler):
    """(1 - time / total_iters) to the `power`, then 0.

    Parameters
    ----------
    total_iters : int
    power : int
        torch takes any number.
    interval : str
        'epoch' or 'step': what time counts.
    """

    word: ClassVar[str] = "polynomial"
    total_iters: int = 5
    power: int = 1


@dataclass(frozen=True, kw_only=True)
class CosineAnnealingLR(LRScheduler):
    """Half a cosine from 1 to `eta_min_factor` at `T_max`, back to 1 at 2 `T_max`, and again.

    Parameters
    ----------
    T_max : int
    eta_min_factor : float
        torch's `eta_min` divided by the learning rate.
    interval : str
        'epoch' or 'step': what time counts.
    """

    word: ClassVar[str] = "cosine"
    T_max: int
    eta_min_factor: float = 0.0


@dataclass(frozen=True, kw_only=True)
class OneCycleLR(LRScheduler):
    """Up and down once along cosines, step by step; the plan's learning rate is torch's `max_lr`.

    Momentum is the plan's and stays. After `total_steps` the last factor stays.

    Parameters
    ----------
    total_steps : int
    pct_start : float
        Share of the steps that go up.
    div_factor : float
        The highest factor, 1, over the first one.
    final_div_factor : float
        The first factor over the last one.
    interval : str
        'step' or 'epoch': what time counts.
    """

    word: ClassVar[str] = "one_cycle"
    interval: str = "step"
    total_steps: int
    pct_start: float = 0.3
    div_factor: float = 25.0
    final_div_factor: float = 1e4


@dataclass(frozen=True, kw_only=True)
class ReduceLROnPlateau(LRScheduler):
    """Times `factor` after `patience` epochs without a better value, down to `min_factor`.

    The value is what `fit(monitor=...)` names.

    Parameters
    ----------
    factor : float
        Below 1.
    patience : int
    threshold : float
        Better is what is better than the best by this share, torch's `threshold_mode='rel'`.
    cooldown : int
        Epochs after a reduction that do not count.
    min_factor : float
        torch's `min_lr` divided by the learning rate.
    interval : str
        'epoch'.
    """

    word: ClassVar[str] = "plateau"
    factor: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    cooldown: int = 0
    min_factor: float = 0.0

    def __post_init__(self) -> None:
        """Check the values; a factor of 1 would reduce nothing."""
        super().__post_init__()
        title = f"optim.lr_scheduler.{type(self).__name__}"
        real(f"{title}: factor", self.factor, 0.0, 1.0 - 2.0**-20)
        if self.interval != "epoch":
            raise ArgumentError(f"{title}: interval needs 'epoch', got {self.interval!r}")


_SCHEDULES: dict[str, type[LRScheduler]] = {
    kind.word: kind
    for kind in (
        *(ConstantLR, LinearLR, StepLR, MultiStepLR, ExponentialLR, PolynomialLR),
        *(CosineAnnealingLR, OneCycleLR, ReduceLROnPlateau),
    )
}


def schedule_options() -> tuple[tuple[str, str], ...]:
    """Return every schedule's word with its options and their defaults, for help."""
    rows = []
    for word, kind in _SCHEDULES.items():
        shown = [
            f"{f.name}={'N' if f.default is MISSING else f'{f.default:g}'}"
            for f in fields(kind)
            if f.name != "interval"
        ]
        rows.append((word, ",".join(shown).replace("milestones=N", "milestones=N/N/...")))
    return tuple(rows)


def check_schedule(schedule: Any) -> tuple[LRScheduler, ...]:
    """Return the schedules whose factors are multiplied.

    Parameters
    ----------
    schedule : LRScheduler, sequence of LRScheduler, str or None

    Raises
    ------
    ArgumentError
        It is none of these, or a text that `parse_schedule` refuses.
    """
    if schedule is None:
        return ()
    if isinstance(schedule, str):
        return parse_schedule(schedule)
    parts = (schedule,) if isinstance(schedule, LRScheduler) else schedule
    kinds = tuple(_SCHEDULES.values())
    listed = isinstance(parts, Sequence)
    known = [plain(p, kinds, "optim.lr_scheduler") for p in parts] if listed else []
    if not listed or None in known:
        raise ArgumentError(
            "schedule needs a text as 'cosine:T_max=10', or one or more of optim.lr_scheduler's "
            f"{', '.join(kind.__name__ for kind in kinds)}, got {schedule!r:.80}"
        )
    if not 1 <= len(known) <= MOST_SCHEDULES:
        raise ArgumentError(f"schedule needs 1 to {MOST_SCHEDULES} schedules, got {len(known)}")
    if sum(isinstance(p, ReduceLROnPlateau) for p in known) > 1:
        raise ArgumentError("only one of the schedules can be a ReduceLROnPlateau ('plateau')")
    return tuple(known)


def parse_schedule(text: str) -> tuple[LRScheduler, ...]:
    """Return the schedules of a text, NAME:OPTION=VALUE,... with '+' between them.

    Raises
    ------
    ArgumentError
        Unknown name or option, or a value out of range.

    Examples
    --------
    >>> parse_schedule("step:step_size=30")
    (StepLR(interval='epoch', step_size=30, gamma=0.1),)
    """
    parts = tuple(_part(text, part) for part in text.split("+"))
    return check_schedule(parts)


def _part(text: str, part: str) -> LRScheduler:
    """Return one schedule of a text."""
    word, _, rest = part.partition(":")
    if word not in _SCHEDULES:
        raise ArgumentError(f"schedule '{text}': '{word}' is unknown, available are "
                            f"{', '.join(_SCHEDULES)}")  # fmt: skip
    kind = _SCHEDULES[word]
    known = (*kind.options(), "interval")
    given: dict[str, Any] = {}
    for item in filter(None, rest.split(",")):
        name, equals, value = item.partition("=")
        if not equals or name not in known or name in given:
            raise ArgumentError(
                f"schedule '{text}': '{item}' is not an option of {word}, or given twice; write "
                f"OPTION=VALUE with {', '.join(known)}"
            )
        given[name] = _value(text, name, value)
    needed = [f.name for f in fields(kind) if f.default is MISSING and f.name not in given]
    if needed:
        raise ArgumentError(f"schedule '{text}': {word} needs {needed[0]}=N")
    return kind(**given)


def _value(text: str, name: str, value: str) -> Any:
    """Return an option's value; its range is the schedule's to check."""
    try:
        if name == "interval":
            return value
        if name == "milestones":
            return tuple(int(time) for time in value.split("/"))
        return int(value) if name in _WHOLE else float(value)
    except ValueError:
        raise ArgumentError(f"schedule '{text}': '{value}' is no value of {name}") from None
