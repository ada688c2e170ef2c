"""How long planning and one training step take on this machine: `make bench`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import optim, zoo
from armtrain.runtime.engine import engine_module

BATCH = 32
STEPPED = ("lenet5", "mlp", "resnet18")

pytestmark = pytest.mark.bench


def make_plan(name: str) -> at.Plan:
    """Return the plan of a zoo model at batch 32 with momentum."""
    entry = zoo.entry(name)
    return at.plan(
        entry.build(),
        input_shape=entry.input_shape,
        batch_size=BATCH,
        loss=entry.loss(),
        optimizer=optim.SGD(lr=0.01, momentum=0.9),
    )


@pytest.mark.parametrize("name", zoo.names())
def test_planning(benchmark: Any, name: str) -> None:
    plan = benchmark.pedantic(make_plan, args=(name,), rounds=3)
    assert plan.arena_bytes >= plan.lower_bound_bytes


@pytest.mark.parametrize("level", engine_module().kernel_levels())
@pytest.mark.parametrize("name", STEPPED)
def test_training_step(benchmark: Any, name: str, level: str) -> None:
    plan = make_plan(name)
    entry = zoo.entry(name)
    engine = engine_module().Engine(plan.to_bytes(), kernel_level=level)
    engine.initialize()
    generator = np.random.default_rng(0)
    x = generator.normal(size=(BATCH, *entry.input_shape)).astype(np.float32)
    labels = generator.integers(0, entry.output_shape[0], BATCH).astype(np.int32)
    loss = benchmark.pedantic(engine.train_step, args=(x, labels, BATCH), rounds=3, warmup_rounds=1)
    assert np.isfinite(loss)
