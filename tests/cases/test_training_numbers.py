"""Small nets with answers worked out by hand, through the whole compiler and engine.

Cases PLAN-01, PLAN-02, PLAN-03, PLAN-06 and CKPT-04: in-place decisions, batch norm before ReLU,
global-norm clipping, batches smaller than planned, Adam across a restart.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim


def plan_of(net: nn.Module, shape: tuple[int, ...], batch: int, **options: object) -> at.Plan:
    """Return a one-thread plan with the mean squared error and SGD(lr=1) unless told otherwise."""
    options = {"loss": nn.MSELoss(), "optimizer": optim.SGD(lr=1.0), "threads": 1} | options
    return at.plan(net, input_shape=shape, batch_size=batch, **options)


def set_weights(trainer: at.Trainer, directory: Path, **values: list[object]) -> None:
    """Replace the weights of `trainer` (underscores in names stand for dots) by `values`."""
    from armtrain.io import safetensors

    tensors = {k.replace("__", "."): np.asarray(v, np.float32) for k, v in values.items()}
    state = {k: tensors.get(k, v) for k, v in trainer.state_dict().items()}
    path = directory / "set.safetensors"
    safetensors.save_file(state, path)
    trainer.load(str(path))


class ReluPlusInput(nn.Module):
    """y = relu(z) + z with z = W x: ReLU must not overwrite z."""

    def __init__(self) -> None:
        """Make the layer."""
        super().__init__()
        self.fc = nn.Linear(1, 2, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return y."""
        z = self.fc(x)
        return nn.ReLU()(z) + z


def test_relu_plus_its_input(tmp_path: Path) -> None:
    """For z = [-1, 2] and upstream [1, 1]: y = [-1, 4], dz = [1, 2]."""
    trainer = at.Trainer(plan_of(ReluPlusInput(), (1,), 1))
    set_weights(trainer, tmp_path, fc__weight=[[-1.0], [2.0]])
    x = np.ones((1, 1), np.float32)
    y = trainer.predict(x)
    assert y.tolist() == [[-1.0, 4.0]]
    trainer.step(x, y - 1.0)  # mean over two elements: dL/dy = y - target = 1
    assert trainer.state_dict()["fc.weight"].ravel().tolist() == [-2.0, 0.0]


class NormThenRelu(nn.Module):
    """Batch norm and ReLU behind a 1x1 convolution whose weight gradient exposes dx."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.conv = nn.Conv2d(5, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(1, eps=0.0)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return the activation."""
        return nn.ReLU()(self.bn(self.conv(x)))


def test_batch_norm_then_relu_in_place(tmp_path: Path) -> None:
    """For x = [1..4], gamma 2, upstream [1, 1, 1, 3]: output, dgamma, dbeta and dx as by hand."""
    trainer = at.Trainer(plan_of(NormThenRelu(), (5, 1, 1), 4))
    set_weights(
        trainer,
        tmp_path,
        conv__weight=np.array([1, 0, 0, 0, 0]).reshape(1, 5, 1, 1),
        bn__weight=[2.0],
    )
    x = np.concatenate([np.arange(1, 5)[:, None], np.eye(4)], axis=1).astype(np.float32)
    x = x.reshape(4, 5, 1, 1)
    out = np.array([0.0, 0.0, 0.894427, 2.683282], np.float32)
    upstream = np.array([1.0, 1.0, 1.0, 3.0], np.float32)
    target = (out - 2.0 * upstream).reshape(4, 1, 1, 1)  # dL/dy = (y - target) / 2
    trainer.step(x, target.astype(np.float32))
    after = trainer.state_dict()
    dx = -after["conv.weight"].ravel()[1:]
    np.testing.assert_allclose(dx, [0.894427, -0.894427, -0.894427, 0.894427], rtol=2e-5)
    np.testing.assert_allclose(2.0 - after["bn.weight"], [4.472136], rtol=1e-5)
    np.testing.assert_allclose(-after["bn.bias"], [4.0], rtol=1e-5)
    np.testing.assert_allclose(after["bn.running_mean"], [0.25], rtol=1e-6)
    np.testing.assert_allclose(after["bn.running_var"], [1.066667], rtol=1e-6)


@pytest.mark.parametrize(
    ("max_norm", "weight", "bias"),
    [(1.0, [0.230769, 0.307692], 0.923077), (6.5, [1.5, 2.0], 6.0), (26.0, [3.0, 4.0], 12.0)],
)
def test_global_norm_clipping(
    tmp_path: Path, max_norm: float, weight: list[float], bias: float
) -> None:
    """Gradients [3, 4] and [12]: norm 13 over both tensors; below the limit nothing changes."""
    trainer = at.Trainer(plan_of(nn.Linear(2, 1), (2,), 1, clip_norm=max_norm))
    set_weights(trainer, tmp_path, weight=[[0.0, 0.0]], bias=[0.0])
    x = np.array([[0.25, 1.0 / 3.0]], np.float32)
    trainer.step(x, np.array([[-6.0]], np.float32))  # dL/dy = 2 (0 + 6) = 12
    after = trainer.state_dict()
    np.testing.assert_allclose(-after["weight"].ravel(), weight, rtol=1e-6)
    np.testing.assert_allclose(-after["bias"], [bias], rtol=1e-6)


def small_net() -> nn.Module:
    """Return a net with a convolution, pooling and two linear layers."""
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(6 * 4 * 4, 12),
        nn.Tanh(),
        nn.Linear(12, 5),
    )


def test_smaller_batches_equal_a_plan_of_that_size() -> None:
    """Batches of 8, 2, 8, 1 under a plan for 8 have the bits of plans for 8, 2 and 1."""
    options = {"loss": nn.CrossEntropyLoss(), "optimizer": optim.SGD(lr=0.1, momentum=0.9)}
    planned = at.Trainer(plan_of(small_net(), (2, 8, 8), 8, **options), seed=5)
    rng = np.random.default_rng(2)
    for size in (8, 2, 8, 1):
        x = rng.random((size, 2, 8, 8), np.float32)
        y = rng.integers(0, 5, size)
        exact = at.Trainer(plan_of(small_net(), (2, 8, 8), size, **options), seed=5)
        fresh = at.Trainer(plan_of(small_net(), (2, 8, 8), 8, **options), seed=5)
        assert exact.step(x, y) == fresh.step(x, y)
        for name, value in exact.state_dict().items():
            assert value.tobytes() == fresh.state_dict()[name].tobytes(), (size, name)
        planned.step(x, y)
    with pytest.raises(at.ArmtrainError, match=r"16.*8"):
        planned.step(np.zeros((16, 2, 8, 8), np.float32), np.zeros(16, np.int64))


@pytest.mark.parametrize("restart", [False, True])
def test_adam_across_a_restart(tmp_path: Path, restart: bool) -> None:
    """One weight, lr 0.1, gradients +1 then -1: -0.1, then -0.0947368, restarted or not."""
    plan = plan_of(nn.Linear(1, 1, bias=False), (1,), 1, optimizer=optim.Adam(lr=0.1))
    trainer = at.Trainer(plan)
    set_weights(trainer, tmp_path, weight=[[0.0]])
    one, target = np.ones((1, 1), np.float32), np.array([[-0.5]], np.float32)
    trainer.step(one, target)  # dL/dw = 2 (0 + 0.5) = 1
    assert trainer.state_dict()["weight"].item() == pytest.approx(-0.1, abs=1e-6)
    if restart:
        trainer._engine.checkpoint_save(str(tmp_path / "c"), 2)
        trainer = at.Trainer(plan)
        trainer._engine.checkpoint_load(str(tmp_path / "c"))
    weight = trainer.state_dict()["weight"].item()
    trainer.step(one, np.array([[weight + 0.5]], np.float32))  # dL/dw = -1
    assert trainer.state_dict()["weight"].item() == pytest.approx(-0.0947368, abs=1e-6)
