"""Batch normalisation: which statistics are used, and what moves them. Cases NUM-04 and NUM-05."""

from __future__ import annotations

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.program import Phase

X = np.arange(1, 5, dtype=np.float32)[:, None]
"""One channel of four values: mean 2.5, variance 1.25 or 1.666667."""
FROZEN = ("frozen_statistics", "frozen_all")


def train(net: nn.Module, steps: int = 1) -> dict[str, np.ndarray]:
    """Return the state after training towards zeros."""
    plan = at.plan(
        net, input_shape=(1,), batch_size=4, loss=nn.MSELoss(), optimizer=optim.SGD(lr=0.1)
    )
    trainer = at.Trainer(plan)
    for _ in range(steps):
        trainer.step(X, np.zeros_like(X))
    return trainer.state_dict()


def test_biased_variance_normalises_and_unbiased_is_kept() -> None:
    state = train(nn.BatchNorm1d(1, eps=0.0))
    np.testing.assert_allclose(state["running_mean"], [0.25], rtol=1e-6)
    np.testing.assert_allclose(state["running_var"], [1.066667], rtol=1e-6)
    # dL/dweight = mean of 2 y (x - 2.5) / sqrt(1.25), with y the same: exactly 2.
    np.testing.assert_allclose(state["weight"], [1.0 - 0.1 * 2.0], rtol=1e-6)


@pytest.mark.parametrize("mode", FROZEN)
def test_frozen_statistics_stay_whatever_train_says(mode: str) -> None:
    net = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1))
    net[0].set_mode(mode)
    net.train()
    state = train(net, steps=3)
    assert (state["0.running_mean"], state["0.running_var"]) == (0.0, 1.0)
    moved = (state["0.weight"] != 1.0, state["0.bias"] != 0.0)
    assert moved == ((True, True) if mode == "frozen_statistics" else (False, False))


def test_frozen_statistics_are_those_of_eval() -> None:
    named, called = nn.BatchNorm1d(1).set_mode("frozen_statistics"), nn.BatchNorm1d(1).eval()
    states = [train(net, steps=3) for net in (named, called)]
    assert all((states[0][name] == states[1][name]).all() for name in states[0])
    again = train(named.set_mode("train"))
    assert again["running_mean"] != 0.0


def test_frozen_all_trains_what_lies_before_it() -> None:
    net = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1).set_mode("frozen_all"))
    plan = at.plan(
        net, input_shape=(1,), batch_size=4, loss=nn.MSELoss(), optimizer=optim.SGD(lr=0.1)
    )
    trainer = at.Trainer(plan)
    before = trainer.state_dict()
    trainer.step(X, np.zeros_like(X))
    after = trainer.state_dict()
    changed = {name for name in before if (before[name] != after[name]).any()}
    assert changed == {"0.weight", "0.bias"}


def test_a_mode_can_be_assigned_and_is_checked() -> None:
    layer = nn.BatchNorm1d(1)
    layer.mode = "frozen_all"
    assert layer.mode == "frozen_all"
    assert layer.weight is not None
    assert not layer.weight.requires_grad
    with pytest.raises(ArgumentError, match="use one of train"):
        layer.mode = "frozen"
    assert layer.mode == "frozen_all"


@pytest.mark.parametrize(("mode", "op"), [("train", "fwd"), ("frozen_statistics", "eval")])
def test_a_description_tells_the_mode_by_the_training_step(mode: str, op: str) -> None:
    net = nn.Sequential(nn.BatchNorm1d(1).set_mode(mode), nn.Linear(1, 1))
    plan = at.plan(
        net, input_shape=(1,), batch_size=4, loss=nn.MSELoss(), optimizer=optim.SGD(lr=0.1)
    )
    steps = [s.op.name for s in plan.program.steps if s.phase is Phase.TRAIN]
    assert steps[0] == f"BATCHNORM2D_{op.upper()}"


def test_modes_that_are_not_there_are_refused() -> None:
    with pytest.raises(ArgumentError, match="use one of train, frozen_statistics, frozen_all"):
        nn.BatchNorm1d(1).set_mode("eval")
    with pytest.raises(ArgumentError, match="make it with track_running_stats=True"):
        nn.BatchNorm2d(1, track_running_stats=False).set_mode("frozen_all")


def test_a_last_batch_of_one_value_never_poisons_statistics() -> None:
    """101 samples in batches of 10: refused before the first step, with what works."""
    plan = at.plan(
        nn.BatchNorm1d(1),
        input_shape=(1,),
        batch_size=10,
        loss=nn.MSELoss(),
        optimizer=optim.SGD(lr=0.1),
    )
    trainer = at.Trainer(plan)
    x = np.zeros((101, 1), np.float32)
    with pytest.raises(ShapeError, match=r"last batch of 1.*plan with batch 9, or leave one"):
        trainer.fit((x, x), epochs=1)
    assert trainer.state_dict()["running_var"] == 1.0
    trainer.fit((x[1:], x[1:]), epochs=1)
    assert np.isfinite(trainer.state_dict()["running_var"]).all()


@pytest.mark.parametrize("mode", FROZEN)
def test_frozen_modes_train_a_batch_of_one(mode: str) -> None:
    net = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1).set_mode(mode))
    plan = at.plan(
        net, input_shape=(1,), batch_size=1, loss=nn.MSELoss(), optimizer=optim.SGD(lr=0.1)
    )
    trainer = at.Trainer(plan)
    assert np.isfinite(trainer.step(X[:1], X[:1]))
