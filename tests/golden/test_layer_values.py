"""Layers and their gradients against PyTorch's in double: the plan's reference, and the engine."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.runtime.engine import engine_module
from armtrain.runtime.reference import ReferenceExecutor
from tests.golden.layer_cases import BATCH, LAYERS, LayerCase, numbers, upstream
from tests.ops.stepwise import open_engine

STORED = json.loads((Path(__file__).parent / "layer_values.json").read_text())
LEVELS = engine_module().kernel_levels()
# Sums of at most a few hundred doubles below 100.
DOUBLE = 1e-12
UNIT = 2.0**-24


def test_every_case_is_stored() -> None:
    assert STORED.keys() == LAYERS.keys()


def plan_of(case: LayerCase) -> at.Plan:
    """Return a plan of the layer behind a linear one of one-hot samples, whose weight is x.

    The gradient of the divergence does not depend on the result: it is -target / samples.
    """
    first = nn.Linear(BATCH, prod(case.shape), bias=False)
    return at.plan(
        nn.Sequential(first, nn.Unflatten(1, case.shape), case.make(nn), nn.Flatten()),
        input_shape=(BATCH,),
        batch_size=BATCH,
        loss=nn.KLDivLoss(reduction="batchmean"),
        optimizer=optim.SGD(lr=1.0, momentum=0.5),
    )


def write(runner: Any, case: LayerCase, dtype: type) -> None:
    """Set all parameters of the reference or the engine."""
    for name, parameter in case.make(nn).named_parameters():
        runner.write(f"2.{name}", numbers(name, parameter.shape).astype(dtype))
    rows = numbers("x", (BATCH, *case.shape)).reshape(BATCH, -1)
    runner.write("0.weight", np.ascontiguousarray(rows.T, dtype))


def stored(name: str) -> dict[str, np.ndarray]:
    """Return PyTorch's result `y` and all gradients by the names of the plan."""
    values = {key: np.array(numbers) for key, numbers in STORED[name].items()}
    y, x = (values.pop(key).reshape(BATCH, -1) for key in ("y", "x"))
    return {"y": y, "0.weight": x.T, **{f"2.{key}": kept for key, kept in values.items()}}


@pytest.mark.parametrize("name", LAYERS)
def test_the_reference_has_the_values_of_torch(name: str) -> None:
    expected, executor = stored(name), ReferenceExecutor(plan_of(LAYERS[name]))
    write(executor, LAYERS[name], np.float64)
    found = {"y": executor.predict_step(np.eye(BATCH))}
    executor.train_step(np.eye(BATCH), upstream(expected["y"].shape))
    found.update(executor.gradients)
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=DOUBLE, atol=DOUBLE, err_msg=key)


@pytest.mark.parametrize("name", LAYERS)
def test_the_engine_has_the_values_of_torch_but_for_rounding(name: str) -> None:
    """The first step of SGD with momentum keeps the gradient as it is."""
    case, plan, expected = LAYERS[name], plan_of(LAYERS[name]), stored(name)
    # Weights of what is rounded are not negative: terms are those of the result of |x|.
    size = {key: np.abs(values) for key, values in expected.items()} | {"y": magnitude(plan, case)}
    for level in LEVELS:
        engine, x = open_engine(plan, kernel_level=level), np.eye(BATCH, dtype=np.float32)
        write(engine, case, np.float32)
        found = {key: np.empty(values.shape, np.float32) for key, values in expected.items()}
        engine.predict_step(x, BATCH, found["y"])
        engine.train_step(x, upstream(found["y"].shape).astype(np.float32), BATCH)
        for key, values in found.items():
            if key != "y":
                engine.read(f"{key}/momentum", values)
            off = np.abs(values - expected[key])
            assert (off <= case.roundings * UNIT * size[key]).all(), (level, key, off.max())


def magnitude(plan: at.Plan, case: LayerCase) -> np.ndarray:
    """Return what the layer makes of |x|."""
    executor = ReferenceExecutor(plan)
    rows = numbers("x", (BATCH, *case.shape)).reshape(BATCH, -1)
    executor.write("0.weight", np.abs(rows.T))
    return executor.predict_step(np.eye(BATCH))
