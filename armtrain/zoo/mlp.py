"""Multi-layer perceptrons."""

from __future__ import annotations

from armtrain import nn

__all__ = ["Autoencoder", "Mlp"]


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


class Autoencoder(nn.Sequential):
    """784-128-32-128-784 with ReLU between; 209,968 parameters."""

    def __init__(self) -> None:
        super().__init__(
            nn.Linear(784, 128),
            nn.ReLU(),
            nn.Linear(128, 32),
            nn.ReLU(),
            nn.Linear(32, 128),
            nn.ReLU(),
            nn.Linear(128, 784),
        )
