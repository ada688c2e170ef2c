"""Compiled programs compute what torch computes: weights after steps of the plan's own steps.

The reference executor runs in double precision and spoils every dead byte, so agreement to
1e-9 also proves in-place decisions and lifetimes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtrain import nn, optim
from armtrain.passes.pipeline import compile_program
from armtrain.planfile.assemble import assemble
from armtrain.runtime.reference import ReferenceExecutor
from tests.unit.passes.nets import NETS, build

BATCH, TOLERANCE = 6, 1e-9
NESTEROV: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}


def torch_of() -> Any:
    return pytest.importorskip("torch", reason="compares with torch where it is installed")


def executor_of(net: nn.Module, shape: tuple[int, ...], **options: Any) -> ReferenceExecutor:
    program = compile_program(net, input_shape=shape, threads=1, **options)
    return ReferenceExecutor(assemble(program))


class Twins:
    """One network in armtrain and in torch with equal weights."""

    def __init__(self, name: str) -> None:
        self.torch = torch_of()
        self.torch.manual_seed(0)
        self.shape = NETS[name]
        self.ours: nn.Module = build(nn, name)
        self.theirs = build(self.torch.nn, name).double()
        for module in self.theirs.modules():
            if isinstance(module, self.torch.nn.BatchNorm2d):
                module.running_mean.uniform_(-1, 1)
                module.running_var.uniform_(0.5, 2)
                if module.affine:
                    module.weight.data.uniform_(0.5, 1.5)
                    module.bias.data.uniform_(-0.5, 0.5)

    def state(self) -> dict[str, Any]:
        state = self.theirs.state_dict().items()
        return {k: v.numpy() for k, v in state if not k.endswith("num_batches_tracked")}

    def batch(self, rng: np.random.Generator, n: int, classes: bool) -> tuple[Any, Any, Any]:
        """Return x, target and torch's loss of a random batch."""
        x: Any = rng.normal(size=(n, *self.shape))
        target: Any
        y = self.theirs(self.torch.tensor(x))
        if classes:
            target = rng.integers(0, y.shape[1], n)
            loss = self.torch.nn.functional.cross_entropy(y, self.torch.tensor(target))
        else:
            target = rng.normal(size=tuple(y.shape))
            loss = self.torch.nn.functional.mse_loss(y, self.torch.tensor(target))
        return x, target, loss

    def compare(
        self, optimizer: Any, theirs: Any, *, classes: bool = False, clip: float | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        """Train both for four steps, one with a smaller batch, and compare everything."""
        loss = nn.CrossEntropyLoss() if classes else nn.MSELoss()
        options |= {"batch_size": BATCH, "loss": loss, "optimizer": optimizer, "clip_norm": clip}
        executor = executor_of(self.ours, self.shape, **options)
        for name, value in self.state().items():
            executor.write(name, value)
        rng = np.random.default_rng(1)
        for n in (BATCH, BATCH, BATCH - 2, BATCH):
            x, target, expected = self.batch(rng, n, classes)
            theirs.zero_grad()
            expected.backward()
            if clip is not None:
                self.torch.nn.utils.clip_grad_norm_(self.theirs.parameters(), clip)
            theirs.step()
            assert executor.train_step(x, target) == pytest.approx(expected.item(), rel=1e-10)
            for name, value in self.state().items():
                np.testing.assert_allclose(
                    executor.read(name), value, rtol=0, atol=TOLERANCE, err_msg=name
                )
        self.theirs.eval()
        with self.torch.no_grad():
            y = self.theirs(self.torch.tensor(x)).numpy()
        np.testing.assert_allclose(executor.predict_step(x), y, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", NETS)
def test_sgd_with_clipping(name: str) -> None:
    twins = Twins(name)
    theirs = twins.torch.optim.SGD(twins.theirs.parameters(), **NESTEROV)
    twins.compare(optim.SGD(**NESTEROV), theirs, clip=0.3)


@pytest.mark.parametrize("name", NETS)
def test_adam(name: str) -> None:
    twins = Twins(name)
    options: dict[str, Any] = {"lr": 0.01, "weight_decay": 0.02}
    theirs = twins.torch.optim.Adam(twins.theirs.parameters(), **options)
    twins.compare(optim.Adam(**options), theirs)


# With a small eps, noise in a gradient that is 0 in exact arithmetic (a bias before a batch norm)
# becomes a step; where weight decay does not hide it, eps is larger.
ADAPTIVE: list[tuple[str, dict[str, Any]]] = [
    ("AdamW", {"lr": 0.01, "weight_decay": 0.3, "eps": 1e-3}),
    ("RMSprop", {"weight_decay": 0.02}),
    ("RMSprop", {"alpha": 0.9, "momentum": 0.9, "eps": 1e-3}),
    ("RMSprop", {"alpha": 0.8, "centered": True, "eps": 1e-3}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.02}),
    ("Adagrad", {"initial_accumulator_value": 0.5}),
]


@pytest.mark.parametrize(("kind", "options"), ADAPTIVE)
@pytest.mark.parametrize("name", ["Residual", "SharedLinear"])
def test_adaptive_rates(name: str, kind: str, options: dict[str, Any]) -> None:
    twins = Twins(name)
    theirs = getattr(twins.torch.optim, kind)(twins.theirs.parameters(), **options)
    twins.compare(getattr(optim, kind)(**options), theirs)


@pytest.mark.parametrize("name", sorted(NETS.keys() - {"ImageOut"}))
def test_cross_entropy(name: str) -> None:
    twins = Twins(name)
    theirs = twins.torch.optim.SGD(twins.theirs.parameters(), lr=0.1)
    twins.compare(optim.SGD(lr=0.1), theirs, classes=True)


@pytest.mark.parametrize("layers", [("conv1", "bn1"), ("bn2",), ("conv1", "bn1", "conv2", "down")])
@pytest.mark.parametrize("evaluating", [False, True])
def test_frozen_layers(layers: tuple[str, ...], evaluating: bool) -> None:
    twins = Twins("Residual")
    for net in (twins.ours, twins.theirs):
        for layer in layers:
            getattr(net, layer).requires_grad_(False)
            getattr(net, layer).train(not evaluating)
    trained = [p for p in twins.theirs.parameters() if p.requires_grad]
    options: dict[str, Any] = {"lr": 0.1, "momentum": 0.5, "dampening": 0.3, "weight_decay": 0.1}
    theirs = twins.torch.optim.SGD(trained, **options)
    twins.compare(optim.SGD(**options), theirs, classes=True)


@pytest.mark.parametrize("layer", ["fc", "bn2", "down", "conv2"])
def test_train_only(layer: str) -> None:
    twins = Twins("Residual")
    for name, module in twins.theirs.named_modules():
        if isinstance(module, twins.torch.nn.BatchNorm2d):
            module.train(name.startswith(layer))
    for name, param in twins.theirs.named_parameters():
        param.requires_grad_(name.startswith(layer))
    trained = [p for p in twins.theirs.parameters() if p.requires_grad]
    theirs = twins.torch.optim.SGD(trained, lr=0.1)
    twins.compare(optim.SGD(lr=0.1), theirs, classes=True, train_only=f"{layer}.*")


def test_param_groups() -> None:
    twins = Twins("Residual")
    own = dict(twins.theirs.named_parameters())
    fc = [p for name, p in own.items() if name.startswith("fc.")]
    rest = [p for name, p in own.items() if not name.startswith("fc.") and name != "conv2.bias"]
    theirs = twins.torch.optim.SGD(
        [
            {"params": fc, "lr": 0.3, "weight_decay": 0.1},
            {"params": [own["conv2.bias"]], "momentum": 0.0},
            {"params": rest},
        ],
        lr=0.1,
        momentum=0.9,
    )
    groups = [
        {"params": "fc.*", "lr": 0.3, "weight_decay": 0.1},
        {"params": ["conv2.bias"], "momentum": 0.0},
    ]
    twins.compare(optim.SGD(lr=0.1, momentum=0.9), theirs, classes=True, param_groups=groups)


class Relu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        x = self.fc(x)
        return x.relu() + x


def test_relu_plus_x_by_hand() -> None:
    """With x = [-1, 2] and upstream [1, 1]: y = [-1, 4], dx = [1, 2]."""
    options = {"batch_size": 1, "loss": nn.MSELoss(), "optimizer": optim.SGD(lr=1.0)}
    executor = executor_of(Relu(), (2,), **options)
    executor.write("fc.weight", np.eye(2))
    x = np.array([[-1.0, 2.0]])
    assert executor.predict_step(x).tolist() == [[-1.0, 4.0]]
    executor.train_step(x, np.array([[-2.0, 3.0]]))
    assert executor.gradients["fc.weight"].tolist() == [[-1.0, 2.0], [-2.0, 4.0]]


def test_batch_norm_then_relu_by_hand() -> None:
    """Gamma 2, eps 0, x = [1, 2, 3, 4], upstream [1, 1, 1, 3]: dgamma 4.472136, dbeta 4."""
    net = nn.Sequential(nn.BatchNorm2d(1, eps=0.0), nn.ReLU())
    options = {"batch_size": 4, "loss": nn.MSELoss(), "optimizer": optim.SGD(lr=0.1)}
    executor = executor_of(net, (1, 1, 1), **options)
    executor.write("0.weight", [2.0])
    y = np.array([0.0, 0.0, 0.894427190999916, 2.683281572999748])
    target = (y - 2.0 * np.array([1.0, 1.0, 1.0, 3.0])).reshape(4, 1, 1, 1)
    executor.train_step(np.arange(1.0, 5.0).reshape(4, 1, 1, 1), target)
    assert executor.gradients["0.weight"][0] == pytest.approx(4.472135955)
    assert executor.gradients["0.bias"][0] == pytest.approx(4.0)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(1, 1, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.fc(self.fc(x))


def test_shared_weight_by_hand() -> None:
    """Let y = w (w x) with w = 2, x = 3, dL/dy = 1, lr 0.1: dL/dw = 12, new w = 0.8."""
    options = {"batch_size": 1, "loss": nn.MSELoss(), "optimizer": optim.SGD(lr=0.1)}
    executor = executor_of(Twice(), (1,), **options)
    executor.write("fc.weight", [[2.0]])
    executor.train_step([[3.0]], [[11.5]])
    assert executor.gradients["fc.weight"].tolist() == [[12.0]]
    assert executor.read("fc.weight")[0, 0] == pytest.approx(0.8)


class TwoBiases(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(1, 2), nn.Linear(2, 1)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.b(self.a(x))


@pytest.mark.parametrize(("limit", "scale"), [(1.0, 1 / 13), (6.5, 0.5), (20.0, 1.0)])
def test_clipping_is_global(limit: float, scale: float) -> None:
    """Bias gradients [3, 4] and [12] have the norm 13 together."""
    net = TwoBiases()
    net.a.weight.requires_grad_(False)
    net.b.weight.requires_grad_(False)
    options = {"batch_size": 1, "loss": nn.MSELoss(), "optimizer": optim.SGD(lr=1.0)}
    executor = executor_of(net, (1,), **options, clip_norm=limit)
    executor.write("b.weight", [[0.25, 1 / 3]])
    for name, size in (("a.bias", 2), ("b.bias", 1)):
        executor.write(name, np.zeros(size))
    executor.write("a.weight", np.zeros((2, 1)))
    executor.train_step([[0.0]], [[-6.0]])
    np.testing.assert_allclose(executor.read("a.bias"), [-3 * scale, -4 * scale], rtol=1e-6)
    np.testing.assert_allclose(executor.read("b.bias"), [-12 * scale], rtol=1e-6)
