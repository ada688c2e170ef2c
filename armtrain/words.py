"""How callers write what a message offers: Python's arguments, or options of the command line."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ARGUMENTS", "MONITORS", "OPTIONS", "Words"]

Words = Mapping[str, str]
ARGUMENTS: Words = {
    "batch_size": "batch_size={}",
    "threads": "threads={}",
    "train_only": "train_only={!r}",
    "separator": ", ",
    "resume": "resume=True",
    "seed": "seed={}",
}
"""How callers of `armtrain.plan` and `Trainer` write it."""
OPTIONS: Words = {
    "batch_size": "--batch {}",
    "threads": "--threads {}",
    "train_only": "--train-only '{}'",
    "separator": " ",
    "resume": "--resume",
    "seed": "--seed {}",
}
"""How users of the command line write it."""
MONITORS = ("train_loss", "val_loss", "val_accuracy")
"""Values of an epoch that a run can follow; their order is that of the engine's ART_MONITOR_*."""
