"""Watching an epoch's value: early stopping, the best weights, ReduceLROnPlateau.

What has to be remembered is in the engine and in checkpoints; comparisons are the engine's, so that
`armtrain-run` (kernels/run/watch.c) decides alike.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armtrain.optim.lr_scheduler import LRScheduler
from armtrain.runtime.engine import engine_module
from armtrain.runtime.history import EpochRecord
from armtrain.runtime.progress import Progress
from armtrain.words import MONITORS

if TYPE_CHECKING:
    from armtrain._engine import Engine

__all__ = ["Watch", "WatchOptions"]

_QUANTITIES = {name: number for number, name in enumerate(MONITORS, 1)}
"""Field of an epoch's record -> ART_MONITOR_* of kernels/engine/monitor.h."""


@dataclass(frozen=True)
class WatchOptions:
    """What a run does with its epochs' values; see `Trainer.fit`.

    Attributes
    ----------
    quantity : str
        Field of `EpochRecord`.
    patience : int
        Epochs without a better value that end the run, 0 for never.
    keep_best : str, optional
        File for the weights of the best epoch.
    plateau : LRScheduler, optional
        The schedule that follows the values.
    """

    quantity: str
    patience: int = 0
    keep_best: str | None = None
    plateau: LRScheduler | None = None

    def value(self, record: EpochRecord, measured: bool) -> float | None:
        """Return what is watched of an epoch, None for nothing."""
        value: float | None = getattr(record, self.quantity)
        return value if measured or not self.quantity.startswith("val_") else None


class Watch:
    """Takes the value of every epoch of one run."""

    def __init__(
        self,
        engine: Engine,
        options: WatchOptions | None,
        progress: Progress,
        about: str | None,
    ) -> None:
        """Watch nothing where `options` is None; `about` is kept with the best weights."""
        self._engine = engine
        self._options = options
        self._progress = progress
        self._about = about

    def begin(self, resumed: bool, epoch: int) -> None:
        """Forget earlier runs, or go on with what the checkpoint remembers.

        Raises
        ------
        DataError
            The file for the best weights holds others.
        """
        options = self._options
        if options is None:
            return
        if not resumed:
            self._engine.set_monitor(engine_module().new_monitor())
            return
        memory, keep = self._engine.get_monitor(), options.keep_best
        if keep is None or not memory["quantity"]:
            return
        if not os.path.exists(keep):
            self._progress.note(
                f"note: {keep} is missing: the best weights are looked for from epoch {epoch + 1} "
                "on"
            )
            self._engine.set_monitor(memory | {"quantity": 0})
        elif memory["quantity"] == _QUANTITIES[options.quantity]:
            # Else another value is followed from the next epoch on, whose weights replace it.
            self._engine.check_best(keep)

    @property
    def plateau_scale(self) -> float:
        """Factor of the learning rates that follows the values."""
        return 1.0 if self._options is None else float(self._engine.get_monitor()["plateau_scale"])

    def take(self, record: EpochRecord, measured: bool) -> None:
        """Compare a complete epoch's value; keep its weights if it is the best.

        Parameters
        ----------
        record : EpochRecord
        measured : bool
            Something of the validation data counted: not all labels are the ignored one.
        """
        options = self._options
        value = None if options is None else options.value(record, measured)
        if options is None or value is None:
            return
        memory, better = engine_module().monitor_epoch(
            self._engine.get_monitor(),
            _QUANTITIES[options.quantity],
            value,
            record.epoch,
            None if options.plateau is None else options.plateau.values(),
        )
        self._engine.set_monitor(memory)
        # Before the checkpoint that knows of it: who is killed between does this epoch again.
        if better and options.keep_best is not None:
            self._engine.save_safetensors(options.keep_best, self._about, best=True)

    def exhausted(self, epoch: int, position: int) -> bool:
        """Whether early stopping ends the run after `epoch` complete epochs."""
        options = self._options
        if options is None or position:
            return False
        return bool(
            engine_module().monitor_exhausted(
                self._engine.get_monitor(), _QUANTITIES[options.quantity], epoch, options.patience
            )
        )

    def best_epoch(self) -> int | None:
        """Return the epoch of the best value, None if nothing was watched."""
        memory = self._memory()
        return None if memory is None else int(memory["best_epoch"])

    def _memory(self) -> dict[str, Any] | None:
        """Return what is remembered of the watched quantity, None if there is nothing."""
        if self._options is None:
            return None
        memory = self._engine.get_monitor()
        return memory if memory["quantity"] == _QUANTITIES[self._options.quantity] else None

    def tell(self, epoch: int, position: int) -> None:
        """Say how it went."""
        memory, options = self._memory(), self._options
        if memory is None or options is None:
            return
        shown = options.quantity.replace("_", " ")
        if self.exhausted(epoch, position):
            self._progress.note(
                f"stopped early after epoch {epoch}: no better {shown} for "
                f"{epoch - memory['best_epoch']} epoch(s)"
            )
        kept = "" if options.keep_best is None else f", its weights are in {options.keep_best}"
        self._progress.note(
            f"best {shown} {memory['best']:.6g} after epoch {memory['best_epoch']}{kept}"
        )
