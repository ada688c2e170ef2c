"""Every loss and its gradient against PyTorch's, both in double."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.runtime.reference import ReferenceExecutor
from tests.golden.loss_cases import BATCHES, FEATURES, LOSSES, outputs, targets

STORED = json.loads((Path(__file__).parent / "loss_values.json").read_text())
# Sums of a few dozen doubles; numbers here are below 100.
TOLERANCE = 1e-12


def test_every_case_is_stored() -> None:
    assert STORED.keys() == LOSSES.keys()


@pytest.mark.parametrize("n", BATCHES)
@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradient(name: str, n: int) -> None:
    """A linear layer of one-hot samples: its weight is the output, its gradient the output's."""
    case, planned = LOSSES[name], max(BATCHES)
    plan = at.plan(
        nn.Sequential(nn.Linear(planned, FEATURES, bias=False), nn.Unflatten(1, case.shape)),
        input_shape=(planned,),
        batch_size=planned,
        loss=getattr(nn, case.loss)(**case.options),
        optimizer=optim.SGD(lr=1.0),
    )
    executor, x, target = ReferenceExecutor(plan), np.eye(planned)[:n], targets(case, n)
    weight = np.zeros((FEATURES, planned))
    weight[:, :n] = outputs(n).T
    executor.write("0.weight", weight)
    assert executor.evaluate_step(x, target)[0] == pytest.approx(STORED[name][str(n)][0], TOLERANCE)
    assert executor.train_step(x, target) == pytest.approx(STORED[name][str(n)][0], TOLERANCE)
    gradient = executor.gradients["0.weight"]
    expected = np.reshape(STORED[name][str(n)][1:], (n, FEATURES))
    np.testing.assert_allclose(gradient[:, :n].T, expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert not gradient[:, n:].any()
