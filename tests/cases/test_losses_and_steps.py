"""Losses at the edges and steps of optimisers, with answers worked out by hand.

Cases NUM-01 to 03, 05, 07 to 09 and 12, TR-01, 02, 05 and 06 and CKPT-07, through compiler and
engine.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "build" / "armtrain-run"


def trainer_of(
    net: nn.Module, shape: tuple[int, ...], batch: int, seed: int = 0, **options: Any
) -> at.Trainer:
    """Return a trainer of a one-thread plan, with SGD(lr=1) unless told otherwise."""
    options = {"optimizer": optim.SGD(lr=1.0), "threads": 1} | options
    return at.Trainer(at.plan(net, input_shape=shape, batch_size=batch, **options), seed=seed)


def bits(trainer: at.Trainer) -> dict[str, bytes]:
    """Return every weight's bytes."""
    return {name: array.tobytes() for name, array in trainer.state_dict().items()}


class Logits:
    """One step on given logits: a linear layer without inputs but a 1 for each sample."""

    def __init__(self, logits: list[list[float]], **loss: Any) -> None:
        n, classes = len(logits), len(logits[0])
        net = nn.Linear(n, classes, bias=False)
        self.n = n
        self.trainer = trainer_of(net, (n,), n, loss=nn.CrossEntropyLoss(**loss))
        self.before = np.array(logits, np.float32).T.copy()
        self.trainer.load_state_dict({"weight": self.before})

    def step(self, labels: list[int]) -> tuple[float, np.ndarray]:
        """Return the loss and its gradient with respect to the logits, one row a sample."""
        loss = self.trainer.step(np.eye(self.n, dtype=np.float32), np.array(labels))
        return loss, (self.before - self.trainer.state_dict()["weight"]).T

    def loss(self, labels: list[int]) -> float:
        """Return the loss."""
        return self.trainer.evaluate((np.eye(self.n, dtype=np.float32), np.array(labels))).loss


@pytest.mark.parametrize(("label", "loss"), [(3, 0.0), (0, 627.97)])
def test_cross_entropy_of_logits_in_the_hundreds(label: int, loss: float) -> None:
    logits = Logits([[-249.87, -424.13, -460.29, 378.10, -292.61]])
    got, gradient = logits.step([label])
    assert got == pytest.approx(loss, abs=1e-3)
    assert np.isfinite(gradient).all()
    assert gradient.sum() == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize(("row", "loss"), [([-431.0, 279.0, 427.0], 858.0), ([1e8, 1e8], 0.693147)])
def test_cross_entropy_of_huge_logits(row: list[float], loss: float) -> None:
    assert Logits([row]).loss([0]) == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize(
    ("gradient", "change"), [(0.5, 1.0e-3), (1e-8, 5.0e-4)], ids=["usual", "as small as eps"]
)
def test_the_first_step_of_adam(gradient: float, change: float) -> None:
    """The small number is added to the bias-corrected root, as torch does."""
    optimizer = optim.Adam(lr=1e-3, eps=1e-8)
    trainer = trainer_of(
        nn.Linear(1, 1, bias=False), (1,), 1, loss=nn.MSELoss(), optimizer=optimizer
    )
    trainer.load_state_dict({"weight": np.zeros((1, 1))})
    trainer.step(np.ones((1, 1), np.float32), np.array([[-gradient / 2]], np.float32))
    assert -trainer.state_dict()["weight"].item() == pytest.approx(change, rel=1e-4)


def test_a_last_batch_of_one_value_a_channel_is_refused_before_the_first_step() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    trainer = trainer_of(net, (3,), 10, loss=nn.CrossEntropyLoss())
    before = bits(trainer)
    x = np.random.default_rng(0).random((101, 3), np.float32)
    with pytest.raises(
        at.ShapeError, match=r"101 samples in batches of 10 leave a last batch of 1"
    ):
        trainer.fit((x, np.arange(101) % 2), 1, progress=False)
    assert bits(trainer) == before
    trainer.fit((x[:100], np.arange(100) % 2), 1, progress=False)
    assert all(np.isfinite(array).all() for array in trainer.state_dict().values())


def test_label_smoothing_spreads_over_every_class() -> None:
    assert Logits([[2, 0, 0, 0]], label_smoothing=0.1).loss([0]) == pytest.approx(
        0.490753, abs=1e-6
    )


def test_class_weights_divide_by_their_sum() -> None:
    logits = Logits([[2, 0, 0, 0], [2, 0, 0, 0]], weight=[1, 3, 1, 1])
    assert logits.step([0, 1])[0] == pytest.approx(1.840753, abs=2e-6)


@pytest.mark.parametrize("front", ["run", "python"])
def test_divergence_ends_the_run_and_keeps_the_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], front: str
) -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    options = {"loss": nn.MSELoss(), "threads": 1, "input_shape": (3,), "batch_size": 4}
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=rng.random((20, 3)), y=rng.random((20, 1)))
    args = [f"{tmp_path}/m.plan", "--data", f"npz:{tmp_path}/d.npz"]
    args += ["--checkpoint", f"{tmp_path}/c"]

    def train(lr: float, epochs: int) -> tuple[int, str]:
        at.plan(net, optimizer=optim.SGD(lr=lr), **options).save(tmp_path / "m.plan")
        words = [*args, "--epochs", str(epochs), "--resume"]
        if front == "python":
            return main(["train", *words]), capsys.readouterr().err
        done = subprocess.run([str(RUN), *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    assert train(0.01, 1)[0] == 0
    kept = {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()}
    code, said = train(1e6, 9)
    assert code == 1
    assert re.search(r"the loss after \d+ steps is -?(nan|inf)", said)
    assert "the first tensor that is not finite is '" in said
    assert "of epoch 2; checkpoints are as they were" in said
    assert {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()} == kept


def test_dropout_keeps_the_mean_and_does_nothing_at_0_or_in_evaluation() -> None:
    n = 100_000
    x = np.ones((1, n), np.float32)

    def dropped(p: float) -> tuple[np.ndarray, np.ndarray]:
        """Return what a training step's dropout makes of ones, and what a prediction makes."""
        net = nn.Sequential(nn.Dropout(p), nn.Linear(n, 1, bias=False))
        trainer = trainer_of(net, (n,), 1, loss=nn.L1Loss())
        trainer.load_state_dict({"1.weight": np.zeros((1, n))})
        trainer.step(x, np.array([[-1.0]], np.float32))  # dL/dy = 1: the gradient is the input
        gradient = -trainer.state_dict()["1.weight"].ravel()
        trainer.load_state_dict({"1.weight": np.ones((1, n))})
        return gradient, trainer.predict(x)

    values, kept = dropped(0.5)
    assert set(values.tolist()) == {0.0, 2.0}
    assert values.mean() == pytest.approx(1, abs=0.02)
    assert kept.item() == n
    values, kept = dropped(0.0)
    assert set(values.tolist()) == {1.0}
    assert kept.item() == n


@pytest.mark.parametrize("optimizer", [optim.SGD(lr=1.0), optim.Adam(lr=1.0)])
def test_an_infinite_gradient_under_clipping_stops_and_changes_no_weight(
    optimizer: optim.Optimizer,
) -> None:
    """dL/dw = 2 (0 + 1e10) * [1e30, 0] is infinite in float32, the loss 1e20 is not."""
    net = nn.Linear(2, 1)
    trainer = trainer_of(net, (2,), 1, loss=nn.MSELoss(), optimizer=optimizer, clip_norm=1.0)
    trainer.load_state_dict({"weight": np.zeros((1, 2)), "bias": np.zeros(1)})
    before = bits(trainer)
    with pytest.raises(at.NonFiniteError):
        trainer.step(np.array([[1e30, 0]], np.float32), np.array([[-1e10]], np.float32))
    assert bits(trainer) == before


@pytest.mark.parametrize(
    ("optimizer", "weight", "bias"),
    [(optim.SGD(lr=0.1), 0.4, 0.2), (optim.Adam(lr=0.1), 0.1, 0.1)],
)
def test_a_bias_is_updated_once(optimizer: optim.Optimizer, weight: float, bias: float) -> None:
    trainer = trainer_of(nn.Linear(1, 1), (1,), 1, loss=nn.MSELoss(), optimizer=optimizer)
    trainer.load_state_dict({"weight": np.zeros((1, 1)), "bias": np.zeros(1)})
    trainer.step(np.array([[2.0]], np.float32), np.array([[1.0]], np.float32))
    after = trainer.state_dict()
    assert after["weight"].item() == pytest.approx(weight, rel=1e-6)
    assert after["bias"].item() == pytest.approx(bias, rel=1e-6)


def test_a_frozen_weight_does_not_decay() -> None:
    net = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    net[0].requires_grad_(False)
    optimizer = optim.SGD(lr=0.1, weight_decay=0.01)
    trainer = trainer_of(net, (1,), 1, loss=nn.MSELoss(), optimizer=optimizer)
    one = np.ones((1, 1), np.float32)
    trainer.load_state_dict({"0.weight": one, "0.bias": [1], "1.weight": one, "1.bias": [0]})
    for _ in range(100):
        trainer.step(one, np.zeros((1, 1), np.float32))
    after = trainer.state_dict()
    assert after["0.weight"].item() == after["0.bias"].item() == 1.0
    assert after["1.weight"].item() != 1.0


PREDICT = """
import sys
import numpy as np
import armtrain as at
trainer = at.Trainer(sys.argv[1], seed=99)
trainer.load(sys.argv[2])
np.save(sys.argv[4], trainer.predict(np.load(sys.argv[3])))
"""


def test_predictions_of_another_process_have_the_same_bits(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(48, 4))
    trainer = trainer_of(net, (1, 6, 6), 8, loss=nn.CrossEntropyLoss())
    trainer.plan.save(tmp_path / "m.plan")
    trainer.save(tmp_path / "untuned")
    trainer.fit("random:samples=80", 1, progress=False)
    trainer.save(tmp_path / "tuned")
    assert (tmp_path / "tuned").read_bytes() != (tmp_path / "untuned").read_bytes()
    x = np.random.default_rng(0).random((20, 1, 6, 6), np.float32)
    np.save(tmp_path / "x.npy", x)
    paths = [str(tmp_path / name) for name in ("m.plan", "tuned", "x.npy", "out.npy")]
    subprocess.run([sys.executable, "-c", PREDICT, *paths], check=True, cwd=ROOT)
    assert np.load(tmp_path / "out.npy").tobytes() == trainer.predict(x).tobytes()


def test_training_goes_on_after_a_prediction_as_without_one() -> None:
    def made() -> at.Trainer:
        net = nn.Sequential(nn.Linear(5, 7), nn.Dropout(0.3), nn.Tanh(), nn.Linear(7, 3))
        optimizer = optim.Adam(lr=0.01)
        return trainer_of(net, (5,), 4, loss=nn.CrossEntropyLoss(), optimizer=optimizer)

    data, whole = "random:samples=10", made()
    losses = whole.fit(data, 4, progress=False).train_loss
    parts, twice = made(), made()
    x = np.random.default_rng(0).random((9, 5), np.float32)
    got = parts.fit(data, 1, progress=False).train_loss
    first = parts.predict(x)
    got += parts.fit(data, 2, progress=False).train_loss
    assert parts.predict(x).tobytes() != first.tobytes()
    got += parts.fit(data, 1, progress=False).train_loss
    twice.fit(data, 2, progress=False)
    twice.fit(data, 2, progress=False)
    assert got == losses
    assert bits(parts) == bits(whole) == bits(twice)


class Tied(nn.Module):
    """y = W W x: two layers, one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)
        self.second = nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return y."""
        return self.second(self.first(x))


@pytest.mark.parametrize("kind", ["weights", "checkpoint"])
def test_tied_weights_are_stored_once_and_stay_tied(tmp_path: Path, kind: str) -> None:
    from armtrain.io import safetensors

    data, optimizer = "random:samples=8", optim.SGD(lr=0.1)
    before = trainer_of(Tied(), (3,), 8, loss=nn.MSELoss(), optimizer=optimizer)
    before.fit(data, 1, checkpoint=tmp_path / "c", progress=False)
    before.save(tmp_path / "w")
    assert list(safetensors.load_file(tmp_path / "w")) == ["first.weight"]
    after = trainer_of(Tied(), (3,), 8, 5, loss=nn.MSELoss(), optimizer=optimizer)
    if kind == "weights":
        after.load(tmp_path / "w")
    else:
        after._engine.checkpoint_load(str(tmp_path / "c"))
    rng = np.random.default_rng(0)
    x, target = rng.random((8, 3), np.float32), rng.random((8, 3), np.float32)
    weight = after.state_dict()["first.weight"].astype(np.float64)
    before.step(x, target)
    after.step(x, target)
    assert bits(after) == bits(before)
    hidden = x @ weight.T
    upstream = 2 * (hidden @ weight.T - target) / target.size
    gradient = upstream.T @ hidden + (upstream @ weight).T @ x  # of both places, summed
    want = weight - 0.1 * gradient
    got = after.state_dict()["first.weight"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(after.predict(x), x @ want.T @ want.T, rtol=1e-5, atol=1e-6)
