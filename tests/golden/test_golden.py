"""Twenty steps of every golden run against stored PyTorch ones."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.ir.program import Role
from armtrain.runtime.reference import ReferenceExecutor
from tests.golden.runs import MODELS, RUNS, STEPS, batches, initial_weights

FOLDER = Path(__file__).parent
STORED = json.loads((FOLDER / "losses.json").read_text())
DISTANCES = json.loads((FOLDER / "distances.json").read_text())
TIMES_TORCH = 2.0
"""How far from exact arithmetic we may end, in distances of PyTorch's float32."""
ENGINE_TOLERANCE = 1e-4
REFERENCE_TOLERANCE = 1e-9


def make_plan(name: str) -> at.Plan:
    """Return the plan of a golden run."""
    run = RUNS[name]
    return at.plan(
        MODELS[run.model](nn),
        input_shape=run.input_shape,
        batch_size=run.batch_size,
        loss=nn.CrossEntropyLoss(),
        optimizer=getattr(optim, run.optimizer)(**run.options),
        clip_norm=run.clip_norm,
        clip_value=run.clip_value,
    )


def weights(plan: at.Plan) -> dict[str, np.ndarray]:
    """Return the initial weights of a golden run by name."""
    trained = [t for t in plan.program.tensors if t.role == Role.WEIGHT]
    return {t.name: initial_weights(t.name, t.layout.shape) for t in trained}


def test_all_runs_are_stored() -> None:
    assert set(STORED) == set(DISTANCES) == set(RUNS)
    for kinds in STORED.values():
        assert {kind: len(losses) for kind, losses in kinds.items()} == {
            "float32": STEPS,
            "float64": STEPS,
        }


Weights = dict[str, np.ndarray]


@cache
def run_reference(name: str) -> tuple[list[float], Weights]:
    """Return the losses and the last weights in double."""
    plan = make_plan(name)
    executor = ReferenceExecutor(plan)
    for tensor, values in weights(plan).items():
        executor.write(tensor, values)
    losses = [executor.train_step(x, labels) for x, labels in batches(RUNS[name])]
    return losses, {tensor: executor.read(tensor) for tensor in weights(plan)}


@cache
def run_engine(name: str) -> tuple[list[float], Weights]:
    """Return the losses and the last weights of the engine."""
    plan = make_plan(name)
    trainer = at.Trainer(plan)
    trainer.load_state_dict(trainer.state_dict() | weights(plan))
    losses = [trainer.step(x, labels) for x, labels in batches(RUNS[name])]
    return losses, trainer.state_dict()


@pytest.mark.parametrize("name", RUNS)
def test_reference_follows_torch_in_double(name: str) -> None:
    losses = run_reference(name)[0]
    np.testing.assert_allclose(losses, STORED[name]["float64"], rtol=REFERENCE_TOLERANCE)


@pytest.mark.parametrize("name", RUNS)
def test_engine_follows_torch(name: str) -> None:
    losses = run_engine(name)[0]
    np.testing.assert_allclose(losses, STORED[name]["float32"], rtol=ENGINE_TOLERANCE)


@pytest.mark.parametrize("name", RUNS)
def test_engine_ends_as_near_to_double_as_torch(name: str) -> None:
    """The reference is torch's double within 1e-9, as the losses show."""
    exact, ours = run_reference(name)[1], run_engine(name)[1]
    squares = [np.sum((ours[tensor] - values) ** 2) for tensor, values in exact.items()]
    assert np.sqrt(np.sum(squares)) <= TIMES_TORCH * DISTANCES[name]
