"""What layers and weights mean where other frameworks mean something else, to the digit.

Cases IMP-01 to 06, 08, 10 and 12: padding on one side, windows that reach out, orders of axes, two
GELUs, depthwise convolutions, weights that are stored once, half precision.
"""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.cli.main import main
from armtrain.io import safetensors
from armtrain.ir.graph import Conv2dAttrs
from armtrain.ir.program import Role
from armtrain.nn.parameter import constant

RUN = Path(__file__).resolve().parents[2] / "build" / "armtrain-run"


def trainer_of(net: nn.Module, shape: tuple[int, ...], **options: Any) -> at.Trainer:
    """Return a trainer of a one-thread plan for one sample, with SGD(lr=1) and a squared error."""
    options = {"optimizer": optim.SGD(lr=1.0), "loss": nn.MSELoss(), "threads": 1} | options
    return at.Trainer(at.plan(net, input_shape=shape, batch_size=1, **options))


class Fed(nn.Module):
    """A layer behind a weight of 1, for its gradient: of the kind that is planned to train."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.scale = nn.Parameter((1,), constant(1.0))
        self.layer = layer

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return the layer's value."""
        return self.layer(x * self.scale)


def value_of(layer: nn.Module, x: Any) -> np.ndarray:
    """Return what a layer makes of one sample."""
    sample = np.asarray(x, np.float32)[None]
    return trainer_of(Fed(layer), sample.shape[1:]).predict(sample)[0]


def gradient_of(layer: nn.Module, x: Any) -> float:
    """Return the derivative of the sum of a layer's values by a factor of the sample, at 1."""
    sample = np.asarray(x, np.float32)[None]
    trainer = trainer_of(Fed(layer), sample.shape[1:])
    y = trainer.predict(sample)
    trainer.step(sample, y - np.float32(y.size / 2))  # the mean of squares: dL/dy = 1
    return float(1.0 - trainer.state_dict()["scale"].item())


# --- padding and windows -----------------------------------------------------------------------


class SameUpper(nn.Module):
    """A convolution of 3 and stride 2 that pads as SAME-upper does: 0 before, 1 after."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3, stride=2, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return the windows' sums of products."""
        attrs = Conv2dAttrs((2, 2), (0, 0), (1, 1), 1, 2, (1, 1))
        return x.record(self.conv, attrs, {"weight": self.conv.weight, "bias": None})


def test_padding_after_the_end_alone() -> None:
    trainer = trainer_of(SameUpper(), (1, 224, 224))
    weight = np.zeros((1, 1, 3, 3))
    weight[0, 0, 0, 0], weight[0, 0, 2, 2] = 1.0, 1000.0
    trainer.load_state_dict({"conv.weight": weight})
    x = np.arange(224.0 * 224.0, dtype=np.float32).reshape(1, 1, 224, 224) % 997
    y = trainer.predict(x)
    assert y.shape == (1, 1, 112, 112)
    padded = np.pad(x[0, 0], (0, 1))
    np.testing.assert_array_equal(y[0, 0], padded[0:224:2, 0:224:2] + 1000 * padded[2::2, 2::2])


SQUARE = np.arange(16.0).reshape(1, 4, 4)


@pytest.mark.parametrize(
    ("options", "want"),
    [({"padding": 1}, [[5, 7], [13, 15]]), ({"ceil_mode": True}, [[10, 11], [14, 15]])],
    ids=["one on all sides", "as SAME-upper"],
)
def test_maxima_of_padded_windows(options: dict[str, Any], want: list[list[int]]) -> None:
    layer = nn.MaxPool2d(3, 2, **options)
    assert value_of(layer, SQUARE).tolist() == [want]
    assert gradient_of(layer, SQUARE) == np.sum(want)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "want"),
    [
        (5, 2, 2, 1, [1, 3, 5]),
        (9, 4, 4, 2, [2, 6, 9]),
        (32, 1, 2, 0, list(range(1, 33, 2))),
    ],
)
def test_a_last_window_in_the_padding_is_dropped(
    size: int, kernel: int, stride: int, padding: int, want: list[int]
) -> None:
    x = np.arange(1.0, size + 1)
    windows = {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": True}
    largest = value_of(nn.MaxPool1d(**windows), x[None])
    assert largest.tolist() == [want]
    assert value_of(nn.AvgPool1d(**windows), x[None]).shape == largest.shape
    square = np.broadcast_to(x, (1, size, size))
    assert value_of(nn.MaxPool2d(**windows), square).tolist() == [[want] * len(want)]


class PaddedAfter(nn.Module):
    """Means of 2 x 2 with one zero, which counts, below and on the right alone."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(2, 1, padding=1)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return the means without those that hold zeros above or on the left."""
        return self.pool(x)[:, :, 1:, 1:]


def test_means_over_zeros_that_count() -> None:
    ones = np.ones((1, 2, 2))
    assert value_of(PaddedAfter(), ones).tolist() == [[[1, 0.5], [0.5, 0.25]]]
    assert gradient_of(PaddedAfter(), ones) == 2.25


# --- orders of axes ----------------------------------------------------------------------------


@pytest.mark.parametrize("convolved", [False, True])
def test_flattening_keeps_channels_first(convolved: bool) -> None:
    """With channels last, the weight at 1 would meet the 4."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(8, 1, bias=False))
    state = {"1.weight": np.eye(1, 8, 1)}
    if convolved:
        net = nn.Sequential(nn.Conv2d(2, 2, 1, bias=False), *net)
        state = {"0.weight": np.eye(2).reshape(2, 2, 1, 1), "2.weight": np.eye(1, 8, 1)}
    trainer = trainer_of(net, (2, 2, 2))
    trainer.load_state_dict(state)
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    assert trainer.predict(x).tolist() == [[1.0]]
    trainer.step(x, np.array([[0.5]], np.float32))  # dL/dy = 1: the gradient is the input
    dense = max(state)
    assert (state[dense] - trainer.state_dict()[dense]).tolist() == [list(range(8))]


@pytest.mark.parametrize(("groups", "inputs"), [(1, 1), (4, 4)], ids=["ordinary", "depthwise"])
def test_one_input_channel_for_every_output_channel_or_for_all(groups: int, inputs: int) -> None:
    trainer = trainer_of(nn.Conv2d(inputs, 4, 1, groups=groups, bias=False), (inputs, 2, 2))
    trainer.load_state_dict({"weight": np.arange(1.0, 5.0).reshape(4, 1, 1, 1)})
    y = trainer.predict(np.ones((1, inputs, 2, 2), np.float32))
    assert y[0].tolist() == [[[channel] * 2] * 2 for channel in (1.0, 2.0, 3.0, 4.0)]
    weight = np.arange(36.0).reshape(4, 1, 3, 3)
    for padding in (0, 1):
        net = nn.Conv2d(inputs, 4, 3, padding=padding, groups=groups, bias=False)
        trainer = trainer_of(net, (inputs, 3, 3))
        assert trainer.state_dict()["weight"].shape == (4, 1, 3, 3)
        trainer.load_state_dict({"weight": weight})
        x = np.arange(9.0 * inputs, dtype=np.float32).reshape(1, inputs, 3, 3)
        middle = trainer.predict(x)[0, :, padding, padding]
        assert middle.tolist() == (weight[:, 0] * x[0]).sum((1, 2)).tolist()


# --- two GELUs ---------------------------------------------------------------------------------


def test_the_two_gelus() -> None:
    density = math.exp(-0.5) / math.sqrt(2 * math.pi)
    exact = 0.5 * math.erfc(math.sqrt(0.5))
    t = math.tanh(math.sqrt(2 / math.pi) * -(1 + 0.044715))
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715)
    for form, value, derivative in (
        ("none", -exact, exact - density),
        ("tanh", -0.5 * (1 + t), 0.5 * (1 + t) - 0.5 * (1 - t * t) * slope),
    ):
        layer = nn.GELU(approximate=form)
        assert value_of(layer, [-1.0]).item() == pytest.approx(value, rel=1e-6)
        assert gradient_of(layer, [-1.0]) == pytest.approx(-derivative, rel=1e-5)
    assert value_of(nn.GELU(), [-1.0]).item() == pytest.approx(-0.158655, abs=5e-7)
    assert value_of(nn.GELU("tanh"), [-1.0]).item() == pytest.approx(-0.158808, abs=5e-7)


# --- files of weights --------------------------------------------------------------------------


class Pair(nn.Module):
    """y = B A x, B being A itself or not."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3, bias=False)
        self.output = nn.Linear(3, 3, bias=False)
        if tied:
            self.output.weight = self.inner.weight

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return y."""
        return self.output(self.inner(x))


@pytest.mark.parametrize("front", ["run", "python"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_file_without_the_tied_output_layer(tmp_path: Path, front: str, tied: bool) -> None:
    """The tie is made again if the model has it; otherwise the weight that lacks is named."""
    trainer = trainer_of(Pair(tied), (3,))
    trainer.plan.save(tmp_path / "m.plan")
    weight = np.arange(9, dtype=np.float32).reshape(3, 3)
    safetensors.save_file({"inner.weight": weight}, tmp_path / "w")
    before, said = trainer.state_dict(), ""
    if front == "run":
        args = [str(RUN), f"{tmp_path}/m.plan", "--data", "random:", "--epochs", "0", "--weights"]
        args += [f"{tmp_path}/w", "--save", f"{tmp_path}/v"]
        done = subprocess.run(args, capture_output=True, text=True, check=False)
        assert done.returncode == (0 if tied else 1)
        said = done.stderr
        if tied:
            trainer.load(tmp_path / "v")
    elif tied:
        trainer.load(tmp_path / "w")
    else:
        with pytest.raises(at.ArmtrainError) as caught:
            trainer.load(tmp_path / "w")
        said = str(caught.value)
    after = trainer.state_dict()
    if tied:
        x = np.array([[1.0, 2.0, 3.0]], np.float32)
        assert list(after) == ["inner.weight"]
        assert trainer.predict(x).tolist() == [(weight @ weight @ x[0]).tolist()]
    else:
        assert "lacks 'output.weight'" in said
        assert {n: a.tobytes() for n, a in after.items()} == {
            n: a.tobytes() for n, a in before.items()
        }


HALVES = {
    "BF16": ([0x3FC0, 0xBF80, 0x4049, 0x0080], [1.5, -1.0, 3.140625, 2.0**-126]),
    "F16": ([0x3E00, 0x7BFF, 0x0001, 0x8000], [1.5, 65504.0, 2.0**-24, -0.0]),
}


@pytest.mark.parametrize("front", ["run", "python"])
@pytest.mark.parametrize("kind", HALVES)
def test_half_precision_is_widened(tmp_path: Path, kind: str, front: str) -> None:
    """Weights of 16 bits become float32 of the same value; a plan counts them with 4 bytes."""
    words, values = HALVES[kind]
    trainer = trainer_of(nn.Linear(4, 1, bias=False), (4,))
    trainer.plan.save(tmp_path / "m.plan")
    shape = {"dtype": kind, "shape": [1, 4], "data_offsets": [0, 8]}
    header = json.dumps({"weight": shape}).encode()
    data = np.array(words, "<u2").tobytes()
    (tmp_path / "w").write_bytes(len(header).to_bytes(8, "little") + header + data)
    args = [f"{tmp_path}/m.plan", "--data", "random:", "--epochs", "0"]
    args += ["--weights", f"{tmp_path}/w", "--save", f"{tmp_path}/v"]
    if front == "run":
        subprocess.run([str(RUN), *args], check=True, capture_output=True)
    else:
        assert main(["train", *args]) == 0
    loaded = safetensors.load_file(tmp_path / "v")["weight"]
    assert loaded.dtype == np.float32
    assert loaded.tobytes() == np.array([values], np.float32).tobytes()
    (weight,) = (t for t in trainer.plan.program.tensors if t.role is Role.WEIGHT)
    assert weight.nbytes == 2 * len(data)
