"""An evaluation that was asked for: its memory, its metrics, and all samples once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from armtrain.data import Expected, Source
from armtrain.errors import ArmtrainError
from armtrain.planfile.plan import Plan
from armtrain.runtime.batches import Buffers, evaluate_source
from armtrain.runtime.engine import engine_module, output_shape
from armtrain.runtime.history import Evaluation
from armtrain.runtime.metrics import metrics_of, outputs_bytes
from armtrain.runtime.room import take_room

if TYPE_CHECKING:
    from armtrain._engine import Engine

__all__ = ["evaluate_all"]


def evaluate_all(
    engine: Engine,
    buffers: Buffers,
    source: Source,
    plan: Plan,
    expected: Expected,
    metrics: str | Iterable[str],
) -> Evaluation:
    """Return loss, accuracy and metrics over all samples of an opened source.

    Raises
    ------
    ArgumentError
        A metric is unknown, or the plan has not what it is made from.
    DoesNotFitError
        Memory lacks for converting batches, for outputs or for a metric's table.
    """
    asked = metrics_of(
        metrics,
        n_classes=expected.n_classes,
        loss=plan.program.loss,
        ignored=expected.ignored_label,
    )
    shape, size = output_shape(plan.program), plan.batch_size
    take_room(engine_module(), size, source, beside_bytes=outputs_bytes(asked, size, shape))
    labels = bool(expected.n_classes)
    result = evaluate_source(engine, buffers, source, labels=labels, metrics=asked, shape=shape)
    if result is None:
        raise ArmtrainError("the evaluation was stopped")
    return result
