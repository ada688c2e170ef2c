"""The digits demo: a small convolutional network learns 8x8 digits inside 512 KiB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from armtrain import optim, zoo
from armtrain.compiler import plan
from armtrain.planfile.plan import Plan
from armtrain.runtime.history import Evaluation, History
from armtrain.runtime.progress import Progress, default_progress
from armtrain.runtime.trainer import Trainer

__all__ = ["EPOCHS", "DigitsRun", "plan_digits", "train_digits"]

EPOCHS = 30
BATCH_SIZE = 32
BUDGET_BYTES = 512 * 1024
SEED = 0


@dataclass(frozen=True)
class DigitsRun:
    """What the demo leaves behind."""

    trainer: Trainer
    history: History
    test: Evaluation

    def to_json_dict(self) -> dict[str, Any]:
        """Return the demo's figures."""
        trainer = self.trainer
        growth = trainer.memory_growth()
        return {
            "test_accuracy": self.test.accuracy,
            "test_loss": self.test.loss,
            "arena_bytes": trainer.plan.arena_bytes,
            "arena_resident_bytes": trainer.arena_resident_bytes(),
            "lower_bound_bytes": trainer.plan.lower_bound_bytes,
            "buffer_bytes": trainer.buffer_bytes,
            "predicted_growth_bytes": trainer.plan.arena_bytes + trainer.buffer_bytes,
            "growth_bytes": growth.growth_bytes,
            "growth_file_bytes": growth.file_bytes,
            "baseline_rss_bytes": growth.baseline_bytes,
            "peak_rss_bytes": trainer.process_peak_bytes(),
            "epochs": len(self.history),
            "seconds": sum(record.seconds for record in self.history),
            "kernel_level": trainer.info["kernel_level"],
        }


def plan_digits() -> Plan:
    """Return the demo's plan: one thread, batch 32, at most 512 KiB."""
    entry = zoo.entry("digits_cnn")
    return plan(
        entry.build(),
        input_shape=entry.input_shape,
        batch_size=BATCH_SIZE,
        loss=entry.loss(),
        optimizer=optim.SGD(lr=0.02, momentum=0.9),
        budget=BUDGET_BYTES,
        threads=1,
    )


def train_digits(
    planned: Plan, *, epochs: int = EPOCHS, seed: int = SEED, progress: Progress | None = None
) -> DigitsRun:
    """Train on the embedded training part and evaluate on the test part."""
    shown = progress or default_progress()
    trainer = Trainer(planned, seed=seed)
    history = trainer.fit("digits:train", epochs, progress=shown)
    return DigitsRun(trainer, history, trainer.evaluate("digits:test"))
