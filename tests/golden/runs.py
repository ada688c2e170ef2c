"""The golden training runs: models, data and optimisers, the same for PyTorch and armtrain.

`nn` is `torch.nn` or `armtrain.nn`: the models below are written once for both. Weights and data
come from a counter-based generator, so nothing but losses has to be stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from armtrain.runtime.reference.random import stream_of_name, uniform

__all__ = ["RUNS", "SEED", "STEPS", "Run", "batches", "causal", "initial_weights"]

STEPS = 20
SEED = 2026
CLASSES = 10


@dataclass(frozen=True)
class Run:
    """One run of STEPS steps, each on another batch."""

    model: str
    input_shape: tuple[int, ...]
    batch_size: int
    optimizer: str
    options: dict[str, Any] = field(default_factory=dict)
    clip_norm: float | None = None
    clip_value: float | None = None


_LENET, _RESNET = ("lenet5", (1, 28, 28), 16), ("small_resnet", (3, 8, 8), 16)
_MLP, _MOBILE = ("mlp", (24,), 16), ("mobile", (3, 8, 8), 16)
_SERIES = ("series", (4, 24), 16)
_TRANSFORMER = ("transformer", (6, 8), 16)
_LSTM, _GRU = ("lstm", (5, 6), 16), ("gru", (5, 6), 16)
_MOMENTUM = {"lr": 0.05, "momentum": 0.9}
_NESTEROV = {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-3}
_CENTERED = {"lr": 1e-3, "centered": True, "momentum": 0.9, "weight_decay": 1e-3}
_ACCUMULATED = {"lr": 1e-2, "initial_accumulator_value": 0.1, "weight_decay": 1e-3}
# Some gradients of a mobile block vanish but for rounding; without a larger eps Adam would make
# steps of one size of that noise.
RUNS: dict[str, Run] = {
    "lenet5_sgd_momentum": Run(*_LENET, "SGD", _MOMENTUM),
    "lenet5_adam": Run(*_LENET, "Adam", {"lr": 3e-3}),
    "lenet5_nesterov_decay_clipped": Run(*_LENET, "SGD", _NESTEROV, clip_norm=0.5),
    "lenet5_adamw": Run(*_LENET, "AdamW", {"lr": 3e-3, "weight_decay": 0.1}),
    "lenet5_rmsprop": Run(*_LENET, "RMSprop", {"lr": 1e-3}),
    "lenet5_adagrad": Run(*_LENET, "Adagrad", {"lr": 1e-2, "lr_decay": 0.05}),
    "lenet5_values_clipped": Run(*_LENET, "SGD", _MOMENTUM, clip_value=0.02),
    "small_resnet_sgd_momentum": Run(*_RESNET, "SGD", _MOMENTUM),
    "small_resnet_adam": Run(*_RESNET, "Adam", {"lr": 1e-3, "weight_decay": 1e-3}),
    "small_resnet_adamw": Run(*_RESNET, "AdamW", {"lr": 1e-3, "betas": (0.8, 0.99)}),
    "small_resnet_rmsprop_centered": Run(*_RESNET, "RMSprop", _CENTERED),
    "small_resnet_adagrad": Run(*_RESNET, "Adagrad", _ACCUMULATED),
    "mlp_sgd": Run(*_MLP, "SGD", {"lr": 0.05}),
    "mlp_adam": Run(*_MLP, "Adam", {"lr": 3e-3}),
    "mlp_adamw": Run(*_MLP, "AdamW", {"lr": 3e-3, "weight_decay": 0.1}),
    "series_sgd_momentum": Run(*_SERIES, "SGD", _MOMENTUM),
    "series_adam": Run(*_SERIES, "Adam", {"lr": 3e-3}),
    "series_adamw": Run(*_SERIES, "AdamW", {"lr": 3e-3, "weight_decay": 0.1}),
    "mobile_sgd_momentum": Run(*_MOBILE, "SGD", _MOMENTUM),
    "mobile_adam": Run(*_MOBILE, "Adam", {"lr": 1e-3, "eps": 1e-4}),
    "mobile_adamw": Run(*_MOBILE, "AdamW", {"lr": 1e-3, "eps": 1e-4, "weight_decay": 0.1}),
    "transformer_sgd_momentum": Run(*_TRANSFORMER, "SGD", {"lr": 0.01, "momentum": 0.9}),
    "transformer_adam": Run(*_TRANSFORMER, "Adam", {"lr": 1e-3, "eps": 1e-4}),
    "transformer_adamw": Run(
        *_TRANSFORMER, "AdamW", {"lr": 1e-3, "eps": 1e-4, "weight_decay": 0.1}
    ),
    "lstm_sgd_momentum": Run(*_LSTM, "SGD", _MOMENTUM),
    "lstm_adam": Run(*_LSTM, "Adam", {"lr": 3e-3}),
    "lstm_adamw": Run(*_LSTM, "AdamW", {"lr": 3e-3, "weight_decay": 0.1}),
    "gru_sgd_momentum": Run(*_GRU, "SGD", _MOMENTUM),
    "gru_adam": Run(*_GRU, "Adam", {"lr": 3e-3}),
    "gru_adamw": Run(*_GRU, "AdamW", {"lr": 3e-3, "weight_decay": 0.1}),
}


def lenet5(nn: Any) -> Any:
    """Return LeNet-5 with ReLU and average pooling."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()),
        *(nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, CLASSES)),
    )


def small_resnet(nn: Any) -> Any:
    """Return two residual blocks with batch normalisation, the second with a projection."""

    class Block(nn.Module):  # type: ignore[misc]
        """Two convolutions and a shortcut."""

        def __init__(self, channels_in: int, channels: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(channels)
            self.relu = nn.ReLU()
            self.projected = stride != 1 or channels_in != channels
            if self.projected:
                self.down = nn.Conv2d(channels_in, channels, 1, stride, bias=False)
                self.down_bn = nn.BatchNorm2d(channels)

        def forward(self, x: Any) -> Any:
            """Return relu(f(x) + shortcut(x))."""
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            shortcut = self.down_bn(self.down(x)) if self.projected else x
            return self.relu(y + shortcut)

    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
        *(Block(8, 8, 1), Block(8, 16, 2)),
        *(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(16, CLASSES)),
    )


def mlp(nn: Any) -> Any:
    """Return two hidden layers."""
    return nn.Sequential(
        *(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, CLASSES)),
    )


def mobile(nn: Any) -> Any:
    """Return inverted residual blocks of MobileNetV2, one with a shortcut."""

    def normed(channels_in: int, channels: int, kernel: int, stride: int, groups: int) -> list[Any]:
        padding = (kernel - 1) // 2
        conv = nn.Conv2d(channels_in, channels, kernel, stride, padding, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(channels)]

    class Block(nn.Module):  # type: ignore[misc]
        """Expand, filter each channel, project."""

        def __init__(self, channels_in: int, channels: int, stride: int) -> None:
            super().__init__()
            wide = 4 * channels_in
            self.conv = nn.Sequential(
                *(*normed(channels_in, wide, 1, 1, 1), nn.ReLU6()),
                *(*normed(wide, wide, 3, stride, wide), nn.ReLU6()),
                *normed(wide, channels, 1, 1, 1),
            )
            self.kept = stride == 1 and channels_in == channels

        def forward(self, x: Any) -> Any:
            """Return f(x), or x + f(x) where shapes agree."""
            return x + self.conv(x) if self.kept else self.conv(x)

    return nn.Sequential(
        *(*normed(3, 8, 3, 1, 1), nn.ReLU6(), Block(8, 8, 1), Block(8, 12, 2)),
        *(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(12, CLASSES)),
    )


def series(nn: Any) -> Any:
    """Return convolutions over sequences, with both shapes that one-sided batch norm takes."""
    return nn.Sequential(
        *(nn.Conv1d(4, 8, 5, padding=2), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2)),
        *(nn.Conv1d(8, 12, 3, stride=2, groups=2, dilation=2), nn.GELU(), nn.AvgPool1d(2)),
        *(nn.Flatten(), nn.Linear(24, 16, bias=False), nn.BatchNorm1d(16), nn.SiLU()),
        nn.Linear(16, CLASSES),
    )


def causal(nn: Any, length: int) -> dict[str, Any]:
    """Return the arguments of attention that hide later places; torch wants a mask."""
    if not hasattr(nn, "Transformer"):
        return {"is_causal": True}
    hidden = nn.Transformer.generate_square_subsequent_mask(length).bool()
    return {"attn_mask": hidden, "is_causal": True}


def transformer(nn: Any) -> Any:
    """Return a block of causal attention and two layers after norms, on sequences of 6 values."""

    class Block(nn.Module):  # type: ignore[misc]
        """Both parts add to what they get."""

        def __init__(self, size: int) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(size), nn.RMSNorm(size, eps=1e-5)
            self.attention = nn.MultiheadAttention(size, 2, batch_first=True)
            self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
            self.gelu = nn.GELU()

        def forward(self, x: Any) -> Any:
            """Return x + attention + layers."""
            y = self.norm1(x)
            x = x + self.attention(y, y, y, need_weights=False, **causal(nn, y.shape[1]))[0]
            return x + self.narrow(self.gelu(self.wide(self.norm2(x))))

    return nn.Sequential(
        *(Block(8), nn.GroupNorm(2, 6), nn.Flatten(), nn.Linear(48, CLASSES)),
    )


def recurrent(nn: Any, kind: str, values: int) -> Any:
    """Return two layers in both directions, and a classifier of the last states."""

    class Net(nn.Module):  # type: ignore[misc]
        """Outputs of the last place, and the last states of the last layer."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = getattr(nn, kind)(6, 8, 2, batch_first=True, bidirectional=True)
            self.output, self.state = nn.Linear(16, CLASSES), nn.Linear(8, CLASSES)

        def forward(self, x: Any) -> Any:
            """Return logits."""
            output, states = self.layers(x)
            last = states[-1] if values == 1 else states[1]
            return self.output(output[:, 2]) + self.state(last[-1] if values == 2 else last)

    return Net()


MODELS = {
    "gru": lambda nn: recurrent(nn, "GRU", 1),
    "lstm": lambda nn: recurrent(nn, "LSTM", 2),
    "lenet5": lenet5,
    "small_resnet": small_resnet,
    "mlp": mlp,
    "mobile": mobile,
    "series": series,
    "transformer": transformer,
}


def initial_weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return a parameter: uniform in +-sqrt(6 / fan in), scales of batch norms in [1, 2)."""
    numbers = uniform(SEED, stream_of_name(name), int(np.prod(shape))).reshape(shape)
    if len(shape) == 1 and name.endswith("weight"):
        return (1.0 + numbers).astype(np.float32)
    fan_in = float(np.prod(shape[1:])) if len(shape) > 1 else 100.0
    return np.asarray((2.0 * numbers - 1.0) * np.sqrt(6.0 / fan_in), np.float32)


def batches(run: Run) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return STEPS batches: noise around one pattern per class, and the labels."""
    size = int(np.prod(run.input_shape))
    patterns = uniform(SEED, stream_of_name("patterns"), CLASSES * size).reshape(CLASSES, size)
    count = STEPS * run.batch_size
    labels = (uniform(SEED, stream_of_name("labels"), count) * CLASSES).astype(np.int32)
    noise = uniform(SEED, stream_of_name("noise"), count * size).reshape(count, size)
    x = (4.0 * (patterns[labels] - 0.5) + noise - 0.5).astype(np.float32)
    shape = (STEPS, run.batch_size, *run.input_shape)
    return list(zip(x.reshape(shape), labels.reshape(STEPS, run.batch_size), strict=True))
