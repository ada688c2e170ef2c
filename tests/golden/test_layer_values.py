"""Layers and their gradients against PyTorch's in double: the plan's reference, and the engine."""

from __future__ import annotations

import json
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.ir.program import Role
from armtrain.runtime.engine import engine_module
from armtrain.runtime.reference import ReferenceExecutor
from tests.golden.layer_cases import BATCH, LAYERS, LayerCase, numbers, start, upstream
from tests.tolerances.propagation import BoundingExecutor

STORED = json.loads((Path(__file__).parent / "layer_values.json").read_text())
LEVELS = engine_module().kernel_levels()
# Sums of at most a few hundred doubles below 100.
DOUBLE = 1e-12
UNIT = 2.0**-24


def test_every_case_is_stored() -> None:
    assert STORED.keys() == LAYERS.keys()


@cache
def plan_of(name: str) -> at.Plan:
    """Return a plan of the layer behind a linear one of one-hot samples, whose weight is x.

    The gradient of the divergence does not depend on the result: it is -target / samples. Where
    training has a result of its own, that becomes a gradient: the weight of one more linear layer
    is what the layer gets as a gradient, and the gradient of that weight is the result.
    """
    case = LAYERS[name]
    first = nn.Linear(BATCH, prod(case.shape), bias=False)
    layers = [first, nn.Unflatten(1, case.shape), case.make(nn), nn.Flatten()]
    if case.of_batch:
        layers.append(nn.Linear(features_of(name), BATCH, bias=False))
    return at.plan(
        nn.Sequential(*layers),
        input_shape=(BATCH,),
        batch_size=BATCH,
        loss=nn.KLDivLoss(reduction="batchmean"),
        optimizer=optim.SGD(lr=1.0, momentum=0.5),
    )


def write(runner: Any, name: str, dtype: type) -> None:
    """Set all parameters and buffers of the reference or the engine."""
    case = LAYERS[name]
    layer = case.make(nn)
    for member, tensor in (*layer.named_parameters(), *layer.named_buffers()):
        runner.write(f"2.{member}", start(member, tensor.shape).astype(dtype))
    rows = numbers("x", (BATCH, *case.shape)).reshape(BATCH, -1)
    runner.write("0.weight", np.ascontiguousarray(rows.T, dtype))
    if case.of_batch:
        runner.write("4.weight", (upstream((BATCH, features_of(name))) / BATCH).astype(dtype))


def stored(name: str) -> dict[str, np.ndarray]:
    """Return PyTorch's result `y`, all gradients and buffers by the names of the plan."""
    values = {key: np.array(numbers) for key, numbers in STORED[name].items()}
    y, x = (values.pop(key).reshape(BATCH, -1) for key in ("y", "x"))
    result = {"4.weight": -y} if LAYERS[name].of_batch else {"y": y}
    return {**result, "0.weight": x.T, **{f"2.{key}": kept for key, kept in values.items()}}


def targets(name: str) -> np.ndarray:
    """Return what makes the layer's gradient."""
    if LAYERS[name].of_batch:
        return BATCH * np.eye(BATCH)
    return upstream((BATCH, features_of(name)))


def features_of(name: str) -> int:
    """Return the numbers of a sample's result."""
    return np.array(STORED[name]["y"]).size // BATCH


def trained(executor: ReferenceExecutor, name: str) -> dict[str, np.ndarray]:
    """Return the reference's result and, after one step, its gradients and buffers."""
    case = LAYERS[name]
    write(executor, name, np.float64)
    found = {} if case.of_batch else {"y": executor.predict_step(np.eye(BATCH))}
    executor.train_step(np.eye(BATCH), targets(name))
    buffers = [f"2.{buffer}" for buffer, _ in case.make(nn).named_buffers()]
    return found | executor.gradients | {buffer: executor.read(buffer) for buffer in buffers}


@pytest.mark.parametrize("name", LAYERS)
def test_the_reference_has_the_values_of_torch(name: str) -> None:
    executor = ReferenceExecutor(plan_of(name))
    expected, found = stored(name), trained(executor, name)
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=DOUBLE, atol=DOUBLE, err_msg=key)


def allowed(name: str) -> dict[str, np.ndarray]:
    """Return how far float32 may be from what is stored."""
    case, plan, expected = LAYERS[name], plan_of(name), stored(name)
    if case.roundings is None:
        executor = BoundingExecutor(plan)
        found = trained(executor, name)
        off = {key: DOUBLE + executor.off_of(key) for key in found if key not in executor.off}
        return off | {key: DOUBLE + bound for key, bound in executor.off.items()}
    # Weights of what is rounded are not negative: terms are those of the result of |x|.
    size = {key: np.abs(values) for key, values in expected.items()} | {"y": magnitude(plan, case)}
    return {key: case.roundings * UNIT * values for key, values in size.items()}


@pytest.mark.parametrize("name", LAYERS)
def test_the_engine_has_the_values_of_torch_but_for_rounding(name: str) -> None:
    """The first step of SGD with momentum keeps the gradient as it is."""
    plan, expected = plan_of(name), stored(name)
    bound, target = allowed(name), targets(name).astype(np.float32)
    gradients = {t.name for t in plan.program.tensors if t.role == Role.STATE}
    data, x = plan.to_bytes(), np.eye(BATCH, dtype=np.float32)
    for level in LEVELS:
        engine = engine_module().Engine(data, seed=1, kernel_level=level)
        engine.initialize()
        write(engine, name, np.float32)
        found = {key: np.empty(values.shape, np.float32) for key, values in expected.items()}
        if "y" in found:
            engine.predict_step(x, BATCH, found["y"])
        engine.train_step(x, target, BATCH)
        for key, values in found.items():
            if key != "y":
                kept = f"{key}/momentum"
                engine.read(kept if kept in gradients else key, values)
            off = np.abs(values - expected[key])
            assert (off <= bound[key]).all(), (level, key, off.max())


def magnitude(plan: at.Plan, case: LayerCase) -> np.ndarray:
    """Return what the layer makes of |x|."""
    executor = ReferenceExecutor(plan)
    rows = numbers("x", (BATCH, *case.shape)).reshape(BATCH, -1)
    executor.write("0.weight", np.abs(rows.T))
    return executor.predict_step(np.eye(BATCH))
