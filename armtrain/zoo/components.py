"""The component models of the paper's memory tables, with MSE: one or a few layers each.

Source: "A New Frontier of AI: On-Device AI Training and Personalization" (arXiv 2206.04688), and
the models of its repository, whose batches are 64 (2048 for `model_a_linear`).
"""

from __future__ import annotations

from armtrain import nn

__all__ = [
    "conv_s2",
    "linear_150528",
    "lstm_150528",
    "model_a_conv",
    "model_a_linear",
    "model_c_conv",
    "model_c_linear",
]

_FILTERS = 3


def _conv() -> nn.Conv2d:
    """Return a convolution that halves both sides."""
    return nn.Conv2d(_FILTERS, _FILTERS, 3, stride=2, padding=1)


def linear_150528() -> nn.Module:
    """Return one layer on flattened 3x224x224 images: 45,158,700 parameters."""
    return nn.Sequential(nn.Linear(150528, 300))


def conv_s2() -> nn.Module:
    """Return one convolution of stride 2: 84 parameters."""
    return nn.Sequential(_conv())


class _LastState(nn.Module):
    """An LSTM of 10 units, of which the last h is the output."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, 10, batch_first=True)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return h after the last step."""
        _, (h_n, _) = self.lstm(x)
        last: nn.Tensor = h_n[-1]
        return last


def lstm_150528() -> nn.Module:
    """Return an LSTM on one flattened 3x224x224 image: 6,021,600 parameters."""
    return _LastState(150528)


def model_a_linear() -> nn.Module:
    """Return three layers that widen and narrow: 11,810,916 parameters."""
    return nn.Sequential(nn.Linear(784, 4096), nn.Linear(4096, 2048), nn.Linear(2048, 100))


def model_a_conv() -> nn.Module:
    """Return three convolutions of stride 2: 252 parameters."""
    return nn.Sequential(_conv(), _conv(), _conv())


def model_c_linear() -> nn.Module:
    """Return one layer, ReLU and a flattening: 1,505,290 parameters."""
    return nn.Sequential(nn.Linear(150528, 10), nn.ReLU(), nn.Flatten())


def model_c_conv() -> nn.Module:
    """Return one convolution, ReLU and a flattening: 84 parameters."""
    return nn.Sequential(_conv(), nn.ReLU(), nn.Flatten())
