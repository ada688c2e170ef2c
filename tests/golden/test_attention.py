"""Attention and all its gradients against PyTorch's, both in double."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.ir.program import Role
from armtrain.runtime.reference import ReferenceExecutor
from tests.golden.attention import ATTENTION, SHAPE, attention_weights, make_attention, samples

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
        optimizer=optim.SGD(lr=0.1),
    )
    executor = ReferenceExecutor(plan)
    for tensor in plan.program.tensors:
        if tensor.role == Role.WEIGHT:
            executor.write(tensor.name, attention_weights(tensor.name, tensor.layout.shape))
    output = np.asarray(executor.predict_step(x))
    close = {"rtol": TOLERANCE, "atol": TOLERANCE}
    np.testing.assert_allclose(output.ravel(), stored.pop("output"), **close)
    executor.train_step(x, np.zeros_like(output))
    assert executor.gradients.keys() == stored.keys()
    for key, gradient in executor.gradients.items():
        np.testing.assert_allclose(gradient.ravel(), stored[key], **close, err_msg=key)
