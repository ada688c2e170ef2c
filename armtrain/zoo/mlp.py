"""Multi-layer perceptron."""

from __future__ import annotations

from armtrain import nn

__all__ = ["Mlp"]


class Mlp(nn.Sequential):
    """784-512-512-10 with ReLU on flattened 1x28x28 images; 669,706 parameters."""

    def __init__(self) -> None:
        super().__init__(
            nn.Flatten(),
            nn.Linear(784, 512),
            nn.ReLU(),
            nn.Linear(512, 512),
            nn.ReLU(),
            nn.Linear(512, 10),
        )
