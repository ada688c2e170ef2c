"""Attention and all its gradients against PyTorch's, both in double."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.ir.program import Role
from armtrain.runtime.engine import engine_module
from tests.golden.attention import ATTENTION, SHAPE, attention_weights, make_attention, samples
from tests.tolerances.propagation import BoundingExecutor

STORED = json.loads((Path(__file__).parent / "attention.json").read_text())
# A few dozen roundings of doubles of about 1, through two norms at most.
TOLERANCE = 1e-12


def test_every_network_is_stored() -> None:
    assert STORED.keys() == ATTENTION.keys()


@pytest.mark.parametrize("name", ATTENTION)
def test_values_and_gradients_are_those_of_torch(name: str) -> None:
    x, stored = samples(), {key: np.array(value) for key, value in STORED[name].items()}
    plan = at.plan(
        make_attention(nn, name),
        input_shape=SHAPE,
        batch_size=4,
        loss=nn.MSELoss(),
        optimizer=optim.SGD(lr=0.1, momentum=0.5),
    )
    weights = {
        tensor.name: attention_weights(tensor.name, tensor.layout.shape)
        for tensor in plan.program.tensors
        if tensor.role == Role.WEIGHT
    }
    executor = BoundingExecutor(plan)
    for tensor, values in weights.items():
        executor.write(tensor, values)
    output = np.asarray(executor.predict_step(x))
    close = {"rtol": TOLERANCE, "atol": TOLERANCE}
    expected = stored.pop("output").reshape(output.shape)
    np.testing.assert_allclose(output, expected, **close)
    executor.train_step(x, np.zeros_like(output))
    assert executor.gradients.keys() == stored.keys()
    for key, gradient in executor.gradients.items():
        np.testing.assert_allclose(gradient.ravel(), stored[key], **close, err_msg=key)
    data = plan.to_bytes()
    for level in engine_module().kernel_levels():
        engine = engine_module().Engine(data, seed=1, kernel_level=level)
        engine.initialize()
        found = {"y": np.empty(output.shape, np.float32)}
        for tensor, values in weights.items():
            engine.write(tensor, values.astype(np.float32))
        engine.predict_step(x.astype(np.float32), len(x), found["y"])
        engine.train_step(x.astype(np.float32), np.zeros(output.shape, np.float32), len(x))
        for tensor, values in weights.items():  # a first step's momentum is the gradient
            found[tensor] = np.empty(values.shape, np.float32)
            engine.read(f"{tensor}/momentum", found[tensor])
        exact = {"y": expected, **{key: stored[key].reshape(v.shape) for key, v in weights.items()}}
        for key, values in found.items():
            off = np.abs(values - exact[key])
            assert (off <= executor.off[key] + TOLERANCE).all(), (level, key, off.max())
