"""Cosines and the loss of them against PyTorch's in double: the plan's reference, the engine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.runtime.engine import engine_module
from armtrain.runtime.reference import ReferenceExecutor
from tests.golden.cosine_cases import BATCHES, FEATURES, MARGINS, SIGNS, cosines, pairs
from tests.ops.stepwise import open_engine

STORED = json.loads((Path(__file__).parent / "cosine.json").read_text())
LEVELS = engine_module().kernel_levels()
PLANNED = max(BATCHES)
UNIT = 2.0**-24
# PyTorch's loss adds 1e-12 to squared lengths, which are above 1 here.
DOUBLE = 4e-12


def plan_of(loss: nn.Loss) -> at.Plan:
    """Return a plan of cosines behind a linear layer of one-hot samples, whose weight is x."""
    rows = nn.Linear(PLANNED, 2 * FEATURES, bias=False)
    return at.plan(
        nn.Sequential(rows, nn.Unflatten(1, (2, FEATURES)), cosines(nn)),
        input_shape=(PLANNED,),
        batch_size=PLANNED,
        loss=loss,
        optimizer=optim.SGD(lr=1.0, momentum=0.5),
    )


def weight(n: int, vanishing: bool = False) -> np.ndarray:
    """Return the weight that makes n pairs."""
    rows = np.ones((PLANNED, 2 * FEATURES))
    rows[:n] = pairs(n, vanishing=vanishing).reshape(n, -1)
    return np.ascontiguousarray(rows.T)


def allowed(n: int) -> np.ndarray:
    """Return the bound of a gradient, of a loss that is a mean of slopes up to 1.

    With lengths a and b, x2 / (a b) and x1 cosine / a^2 add up; both are at most 1 / a. Sums of
    D products have an error of D roundings of a b, a^2 or b^2 at most: 2 D + 6 in a cosine and,
    through both terms with some roundings more, 5 D + 40 in a gradient.
    """
    lengths = np.linalg.norm(pairs(n), axis=2, keepdims=True)
    return (5 * FEATURES + 40) * UNIT / (n * lengths) * np.ones(FEATURES)


@pytest.mark.parametrize("n", BATCHES)
@pytest.mark.parametrize("margin", MARGINS)
def test_the_loss_is_that_of_torch(margin: float, n: int) -> None:
    plan = plan_of(nn.CosineEmbeddingLoss(margin))
    (loss, *slopes), one_hot = STORED["loss"][str(margin)][str(n)], np.eye(PLANNED)[:n]
    expected = np.reshape(slopes, (n, 2, FEATURES))
    executor = ReferenceExecutor(plan)
    executor.write("0.weight", weight(n))
    assert executor.evaluate_step(one_hot, SIGNS[:n])[0] == pytest.approx(loss, rel=DOUBLE)
    assert executor.train_step(one_hot, SIGNS[:n]) == pytest.approx(loss, rel=DOUBLE)
    gradient = executor.gradients["0.weight"]
    found = gradient[:, :n].T.reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=DOUBLE, atol=DOUBLE)
    assert not gradient[:, n:].any()
    x, target = one_hot.astype(np.float32), SIGNS[:n].astype(np.float32)
    for level in LEVELS:
        engine, kept = open_engine(plan, kernel_level=level), np.empty(gradient.shape, np.float32)
        engine.write("0.weight", weight(n).astype(np.float32))
        assert abs(engine.train_step(x, target, n) - loss) <= (2 * FEATURES + 7) * UNIT
        engine.read("0.weight/momentum", kept)
        off = np.abs(kept[:, :n].T.reshape(expected.shape) - expected)
        assert (off <= allowed(n)).all(), (level, off.max())


@pytest.mark.parametrize("vanishing", [False, True])
def test_cosines_are_those_of_torch(vanishing: bool) -> None:
    """The mean absolute error of targets above has one slope: that of the sum."""
    plan = plan_of(nn.L1Loss())
    expected = {
        key: np.array(v) for key, v in STORED["vanishing" if vanishing else "plain"].items()
    }
    executor, one_hot = ReferenceExecutor(plan), np.eye(PLANNED)
    executor.write("0.weight", weight(PLANNED, vanishing))
    np.testing.assert_allclose(executor.predict_step(one_hot)[:, 0], expected["y"], atol=1e-15)
    executor.train_step(one_hot, np.full((PLANNED, 1), 2.0))
    found = -PLANNED * executor.gradients["0.weight"].T.reshape(expected["x"].shape)
    np.testing.assert_allclose(found, expected["x"], rtol=1e-13, atol=1e-15)
    engine, out = open_engine(plan), np.empty((PLANNED, 1), np.float32)
    engine.write("0.weight", weight(PLANNED, vanishing).astype(np.float32))
    engine.predict_step(one_hot.astype(np.float32), PLANNED, out)
    assert (np.abs(out[:, 0] - expected["y"]) <= (2 * FEATURES + 6) * UNIT).all()
    engine.train_step(one_hot.astype(np.float32), np.full((PLANNED, 1), 2.0, np.float32), PLANNED)
    kept = np.empty((2 * FEATURES, PLANNED), np.float32)
    engine.read("0.weight/momentum", kept)
    assert np.isfinite(kept).all()
