"""Callbacks: code of the user at certain points of a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from armtrain.errors import ArgumentError, ArmtrainError

__all__ = ["Callback", "CallbackError", "Callbacks"]


class Callback:
    """Base class of callbacks, whose methods do nothing; any object with some of them will do.

    They are called between two steps, in the order of the list, and may use the trainer: evaluate,
    predict, save. `logs` is a new dict for each call. Epochs count from 1. When one raises, the
    training ends with a checkpoint, where it has a directory for them.
    """

    def on_train_begin(self, logs: dict[str, Any]) -> None:
        """Before the first step; logs: `epochs`, `samples`."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any]) -> None:
        """Before an epoch's first step, or before the rest of a resumed one; logs: `position`."""

    def on_step_end(self, step: int, logs: dict[str, Any]) -> None:
        """After optimiser step `step`, counted since initialisation; logs: `loss`, `samples`."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        """After the validation and the checkpoint; logs: the log's object of the epoch."""

    def on_train_end(self, logs: dict[str, Any]) -> None:
        """After the last epoch, or when a signal stopped the training; logs: `epochs` trained."""


EVENTS = tuple(name for name in vars(Callback) if name.startswith("on_"))
_PLACES = {"on_epoch_begin": "epoch", "on_step_end": "step", "on_epoch_end": "epoch"}


class CallbackError(ArmtrainError):
    """A callback raised an exception, which is the cause of this one."""

    def with_way(self, way: str) -> CallbackError:
        """Return the same with how the training goes on."""
        return CallbackError(f"{self}; {way}")


class Callbacks:
    """A list of callbacks that is called event by event."""

    def __init__(self, given: Any = None) -> None:
        """Check and keep them.

        Parameters
        ----------
        given : sequence or None
            Objects with some of the methods of `Callback`.

        Raises
        ------
        ArgumentError
            It is no list or tuple, or one of them has no such method.
        """
        if given is None:
            given = ()
        if isinstance(given, str | bytes) or not isinstance(given, Sequence):
            raise ArgumentError(
                "callbacks needs a list of objects with methods such as on_epoch_end(epoch, logs), "
                f"got {given!r:.80}"
            )
        for place, one in enumerate(given):
            if isinstance(one, type):
                raise ArgumentError(
                    f"callbacks[{place}] is the class {one.__name__}; give an object: "
                    f"{one.__name__}()"
                )
            if not any(callable(getattr(one, name, None)) for name in EVENTS):
                raise ArgumentError(
                    f"callbacks[{place}] has none of the methods {', '.join(EVENTS)}: {one!r:.80}"
                )
        self._given = tuple(given)

    def call(self, event: str, *args: Any, **logs: Any) -> None:
        """Call the method `event` of all that have it.

        Raises
        ------
        CallbackError
            One raised an exception; the others after it are not called.
        """
        for one in self._given:
            method = getattr(one, event, None)
            if method is None:
                continue
            try:
                method(*args, dict(logs))
            except Exception as error:
                when = f" at {_PLACES[event]} {args[0]}" if args else ""
                raise CallbackError(
                    f"the callback {type(one).__name__}.{event} failed{when}: "
                    f"{type(error).__name__}: {error}"
                ) from error

    def __len__(self) -> int:
        return len(self._given)
