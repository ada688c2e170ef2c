"""Time series of the UCR archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim

pytestmark = pytest.mark.real_data


def read_series(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return series and labels of a file of one variable, labels counted from 0."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.split(":") for line in lines if line and line[0] not in "#@"]
    x = np.array([[float(value) for value in row[0].split(",")] for row in rows], np.float32)
    return x, np.array([int(float(row[1])) - 1 for row in rows], np.int64)


@pytest.mark.parametrize("seed", range(3))
def test_italy_power_demand(folder_of: Callable[[str], Path], seed: int) -> None:
    """The nearest neighbour is right in 95.5 % of the days."""
    folder = folder_of("italy-power-demand")
    train = read_series(folder / "ItalyPowerDemand_TRAIN.ts")
    test = read_series(folder / "ItalyPowerDemand_TEST.ts")
    assert (len(train[1]), len(test[1])) == (67, 1029)
    plan = at.plan(
        nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 2)),
        input_shape=(24,),
        batch_size=8,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.05, momentum=0.9, weight_decay=1e-3),
    )
    trainer = at.Trainer(plan, seed=seed)
    trainer.fit(train, epochs=60)
    assert trainer.evaluate(test).accuracy >= 0.94
