"""VGG16 for 32x32 images (Simonyan and Zisserman, arXiv 1409.1556, configuration D)."""

from __future__ import annotations

from armtrain import nn

__all__ = ["Vgg16"]

_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""(channels, convolutions); a max-pool follows each stage."""


def _features(batch_norm: bool) -> nn.Sequential:
    """Return 13 3x3 convolutions with ReLU and 5 max-pools, 3x32x32 to 512x1x1."""
    layers: list[nn.Module] = []
    channels = 3
    for width, count in _STAGES:
        for _ in range(count):
            layers.append(nn.Conv2d(channels, width, 3, padding=1))
            if batch_norm:
                layers.append(nn.BatchNorm2d(width))
            layers.append(nn.ReLU())
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers)


class Vgg16(nn.Module):
    """VGG16 with a 512-512-10 head on 3x32x32; 15,245,130 parameters without batch norm.

    Parameters
    ----------
    batch_norm : bool
        Whether a batch norm follows each convolution.
    """

    def __init__(self, batch_norm: bool = False) -> None:
        super().__init__()
        self.features = _features(batch_norm)
        self.classifier = nn.Sequential(
            nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return logits of shape (N, 10)."""
        return self.classifier(self.features(x).flatten(1))
