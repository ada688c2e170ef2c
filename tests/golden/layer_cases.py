"""Layers whose values and gradients are stored from PyTorch: one table for both sides.

Inputs, parameters and gradients of results are multiples of 1/256 up to 2, from a counter-based
generator. Sums of products of so few of them are exact in float32, in any order: what only adds,
multiplies and chooses gives PyTorch's bits; only quotients are rounded. What is made of more
operations has the bound that they hand on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from armtrain.runtime.reference.random import stream_of_name, uniform

__all__ = ["BATCH", "LAYERS", "LayerCase", "numbers", "start", "upstream"]

BATCH = 2
SEED = 2026
STEPS = 32
"""Multiples of 1 / STEPS."""


@dataclass(frozen=True)
class LayerCase:
    """One layer.

    Attributes
    ----------
    make : callable
        Returns the layer of `torch.nn` or `armtrain.nn`.
    shape : tuple of int
        One sample.
    roundings : int or None
        The most that a term of a result or of a gradient goes through in float32: one of its
        weight, one of the product, one in each addition. 0: nothing is rounded. None: each
        operation's bound is handed on to the next.
    of_batch : bool
        Whether training has another result than prediction.
    """

    make: Callable[[Any], Any]
    shape: tuple[int, ...]
    roundings: int | None = 0
    of_batch: bool = False


def frozen(layer: Any) -> Any:
    """Return a layer in evaluation whose parameters are not trained."""
    for parameter in layer.parameters():
        parameter.requires_grad_(False)
    return layer.eval()


def last_states(make: Callable[[Any], Any], values: int = 1) -> Callable[[Any], Any]:
    """Return a maker of a recurrent layer that adds its last states, `values` each, to its result.

    Both directions' results are as wide as two states, whose sum says nothing new: 0 of them.
    """

    def build(nn: Any) -> Any:
        class Net(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.layer = make(nn)

            def forward(self, x: Any) -> Any:
                output, states = self.layer(x)
                for state in (states,) if values == 1 else states[:values]:
                    output = output + state[-1].unsqueeze(1)
                return output

        return Net()

    return build


def two_steps(make: Callable[[Any], Any], values: int = 1) -> Callable[[Any], Any]:
    """Return a maker of two steps of a cell, whose states are added."""

    def build(nn: Any) -> Any:
        class Net(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.cell = make(nn)

            def forward(self, x: Any) -> Any:
                state = self.cell(x[:, 1], self.cell(x[:, 0]))
                return state if values == 1 else state[0] + state[1]

        return Net()

    return build


_IMAGE, _SEQUENCE = (2, 4, 5), (2, 7)
LAYERS: dict[str, LayerCase] = {
    "conv_transpose": LayerCase(lambda nn: nn.ConvTranspose2d(2, 3, 3, 2, 1), (2, 3, 4)),
    "conv_transpose_options": LayerCase(
        lambda nn: nn.ConvTranspose2d(4, 2, (3, 2), (2, 1), (1, 0), (1, 0), 2, False, (1, 2)),
        (4, 3, 2),
    ),
    "conv_transpose_gaps": LayerCase(
        lambda nn: nn.ConvTranspose2d(2, 2, 1, (2, 3), output_padding=(1, 2)), (2, 2, 3)
    ),
    "conv_transpose1d": LayerCase(lambda nn: nn.ConvTranspose1d(2, 3, 4, 2, 1, 1), _SEQUENCE),
    "nearest": LayerCase(lambda nn: nn.Upsample((7, 3)), _IMAGE),
    "nearest_scale": LayerCase(lambda nn: nn.Upsample(scale_factor=(1.6, 2.6)), (2, 4, 3)),
    "nearest1d": LayerCase(lambda nn: nn.Upsample(scale_factor=2), _SEQUENCE),
    # At most 2 x 2 pixels for a result and 4 x 4 for a gradient; weight and product.
    "bilinear": LayerCase(lambda nn: nn.Upsample((7, 8), mode="bilinear"), _IMAGE, 18),
    "bilinear_scale": LayerCase(
        lambda nn: nn.Upsample(scale_factor=(1.7, 0.7), mode="bilinear"), _IMAGE, 18
    ),
    "bilinear_of_sizes": LayerCase(
        lambda nn: nn.Upsample(
            scale_factor=(1.7, 0.7), mode="bilinear", recompute_scale_factor=True
        ),
        _IMAGE,
        18,
    ),
    "bilinear_aligned": LayerCase(
        lambda nn: nn.Upsample((7, 3), mode="bilinear", align_corners=True), _IMAGE, 18
    ),
    "bilinear_aligned_to_one": LayerCase(
        lambda nn: nn.Upsample((1, 8), mode="bilinear", align_corners=True), _IMAGE, 18
    ),
    "linear1d": LayerCase(lambda nn: nn.Upsample(12, mode="linear"), _SEQUENCE, 6),
    # Windows of at most 2 x 3 pixels; a pixel is in at most 2 x 3 of a larger output's windows.
    "adaptive": LayerCase(lambda nn: nn.AdaptiveAvgPool2d((3, 2)), _IMAGE, 8),
    "adaptive_larger": LayerCase(lambda nn: nn.AdaptiveAvgPool2d((5, 7)), _IMAGE, 8),
    "adaptive1d": LayerCase(lambda nn: nn.AdaptiveAvgPool1d(3), _SEQUENCE, 5),
    "prelu": LayerCase(lambda nn: nn.PReLU(), _IMAGE),
    "prelu_channels": LayerCase(lambda nn: nn.PReLU(2), _IMAGE),
    "prelu_sequence": LayerCase(lambda nn: nn.PReLU(2), _SEQUENCE),
    "conv_same": LayerCase(lambda nn: nn.Conv2d(2, 3, 3, padding="same"), _IMAGE),
    "conv_same_even": LayerCase(
        lambda nn: nn.Conv2d(2, 2, (2, 4), padding="same", dilation=(3, 1)), _IMAGE
    ),
    "conv_same_depthwise": LayerCase(
        lambda nn: nn.Conv2d(2, 4, 2, padding="same", groups=2), (2, 3, 4)
    ),
    "conv1d_same_even": LayerCase(lambda nn: nn.Conv1d(2, 3, 4, padding="same"), _SEQUENCE),
    "maxpool_ceil": LayerCase(lambda nn: nn.MaxPool2d(3, (2, 3), 1, ceil_mode=True), _IMAGE),
    "maxpool1d_ceil": LayerCase(lambda nn: nn.MaxPool1d(3, ceil_mode=True), _SEQUENCE),
    # Sums of windows are exact, the divisor's inverse and the product are not; 2 x 2 windows
    # give to one pixel.
    "avgpool_ceil": LayerCase(lambda nn: nn.AvgPool2d(3, 2, 1, ceil_mode=True), _IMAGE, 6),
    "avgpool_ceil_without_padding": LayerCase(
        lambda nn: nn.AvgPool2d(3, (2, 3), 1, ceil_mode=True, count_include_pad=False), _IMAGE, 6
    ),
    "avgpool_divisor": LayerCase(
        lambda nn: nn.AvgPool2d(3, 2, 1, ceil_mode=True, divisor_override=5), _IMAGE, 6
    ),
    "avgpool1d_ceil": LayerCase(lambda nn: nn.AvgPool1d(3, ceil_mode=True), _SEQUENCE, 3),
    "identity": LayerCase(lambda nn: nn.Identity(), _SEQUENCE),
    "flatten": LayerCase(lambda nn: nn.Flatten(2), _IMAGE),
    "unflatten": LayerCase(lambda nn: nn.Unflatten(1, (2, 3)), (6,)),
    "dropout_of_evaluation": LayerCase(lambda nn: nn.Dropout(0.3).eval(), _SEQUENCE),
    "relu": LayerCase(lambda nn: nn.ReLU(), _IMAGE),
    "tanh": LayerCase(lambda nn: nn.Tanh(), _IMAGE, None),
    "softmax": LayerCase(lambda nn: nn.Softmax(1), _IMAGE, None),
    "log_softmax": LayerCase(lambda nn: nn.LogSoftmax(-1), _SEQUENCE, None),
    "linear": LayerCase(lambda nn: nn.Linear(5, 3), (5,)),
    "linear_of_sequences": LayerCase(lambda nn: nn.Linear(5, 3, bias=False), (4, 5)),
    "conv": LayerCase(lambda nn: nn.Conv2d(2, 3, 3, padding=1), _IMAGE),
    "conv_options": LayerCase(
        lambda nn: nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2, False), (4, 5, 4)
    ),
    "conv_depthwise": LayerCase(lambda nn: nn.Conv2d(2, 4, 3, groups=2), _IMAGE),
    "conv1d": LayerCase(lambda nn: nn.Conv1d(2, 3, 3, 2, 1), _SEQUENCE),
    "maxpool": LayerCase(lambda nn: nn.MaxPool2d(2, 1), _IMAGE),
    "maxpool1d": LayerCase(lambda nn: nn.MaxPool1d(3, 2, 1, 2), _SEQUENCE),
    "avgpool": LayerCase(lambda nn: nn.AvgPool2d(2), _IMAGE),
    "avgpool1d": LayerCase(lambda nn: nn.AvgPool1d(2), _SEQUENCE),
}
NORMS: dict[str, LayerCase] = {
    "batchnorm": LayerCase(lambda nn: nn.BatchNorm2d(2, 1e-3, 0.3), (2, 2, 3), None, True),
    "batchnorm_plain": LayerCase(
        lambda nn: nn.BatchNorm2d(2, affine=False, track_running_stats=False), (2, 2, 3), None, True
    ),
    "batchnorm_frozen_statistics": LayerCase(lambda nn: nn.BatchNorm2d(2).eval(), (2, 2, 3), None),
    "batchnorm_frozen": LayerCase(lambda nn: frozen(nn.BatchNorm2d(2)), (2, 2, 3), None),
    "batchnorm1d": LayerCase(lambda nn: nn.BatchNorm1d(2), _SEQUENCE, None, True),
    "batchnorm1d_of_features": LayerCase(lambda nn: nn.BatchNorm1d(5), (5,), None, True),
    "batchnorm1d_frozen_statistics": LayerCase(lambda nn: nn.BatchNorm1d(5).eval(), (5,), None),
    "layernorm": LayerCase(lambda nn: nn.LayerNorm(5), (3, 5), None),
    "layernorm_of_several": LayerCase(lambda nn: nn.LayerNorm((2, 2, 3), 1e-3), (2, 2, 3), None),
    "rmsnorm": LayerCase(lambda nn: nn.RMSNorm(5, 1e-3), (3, 5), None),
    "groupnorm": LayerCase(lambda nn: nn.GroupNorm(2, 4), (4, 1, 3), None),
}
RECURRENT: dict[str, LayerCase] = {
    "rnn": LayerCase(last_states(lambda nn: nn.RNN(2, 3, 2, batch_first=True)), (2, 2), None),
    # Sums of products of few enough factors to be exact; where they are 0, slopes jump.
    "rnn_relu": LayerCase(
        last_states(lambda nn: nn.RNN(2, 2, 1, "relu", False, batch_first=True)), (2, 2)
    ),
    "lstm": LayerCase(last_states(lambda nn: nn.LSTM(2, 2, 2, batch_first=True), 2), (2, 2), None),
    "lstm_of_directions": LayerCase(
        last_states(lambda nn: nn.LSTM(2, 1, batch_first=True, bidirectional=True), 0),
        *((2, 2), None),
    ),
    "gru": LayerCase(
        last_states(lambda nn: nn.GRU(2, 2, batch_first=True, bidirectional=True), 0),
        *((2, 2), None),
    ),
    "rnn_cell": LayerCase(two_steps(lambda nn: nn.RNNCell(2, 3)), (2, 2), None),
    "lstm_cell": LayerCase(two_steps(lambda nn: nn.LSTMCell(2, 3), 2), (2, 2), None),
    "gru_cell": LayerCase(two_steps(lambda nn: nn.GRUCell(2, 3)), (2, 2), None),
}
LAYERS |= NORMS | RECURRENT


def numbers(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return multiples of 1 / STEPS in [-2, 2)."""
    count = prod(shape)
    places = np.floor(4 * STEPS * uniform(SEED, stream_of_name(name), count))
    return np.asarray(places.reshape(shape) / STEPS - 2.0)


def positive(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return multiples of 1 / (4 STEPS) in (0, 1]."""
    return np.asarray((numbers(name, shape) + 2.0 + 1 / STEPS) / 4.0)


def start(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return a parameter or a buffer."""
    return (positive if name.endswith("running_var") else numbers)(name, shape)


def upstream(shape: tuple[int, ...]) -> np.ndarray:
    """Return targets in (0, 1]: the loss is the mean over samples of -target * result."""
    return positive("targets", shape)
