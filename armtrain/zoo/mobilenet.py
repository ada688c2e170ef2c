"""MobileNetV2 (Sandler et al., arXiv 1801.04381), with torchvision's structure and names."""

from __future__ import annotations

from armtrain import nn

__all__ = ["InvertedResidual", "MobileNetV2"]

# Table 2 of the paper: expansion, channels, blocks, stride of the first one.
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_STEM, _LAST = 32, 1280


def _normed(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Return convolution, batch norm and ReLU6."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    """Expand by a 1x1 convolution, filter every channel, project; with a shortcut where it fits.

    Parameters
    ----------
    inputs, outputs : int
        Channels.
    stride : int
        Of the filter.
    expansion : int
        Channels of the filter in `inputs`; with 1 nothing expands.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        expand = [] if expansion == 1 else [_normed(inputs, wide, 1)]
        self.conv = nn.Sequential(
            *expand,
            _normed(wide, wide, 3, stride, groups=wide),
            nn.Conv2d(wide, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.use_res_connect = stride == 1 and inputs == outputs

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return the projection, or its sum with the input."""
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """Width 1, 10 classes.

    2,236,682 parameters, and 34,112 running statistics.
    """

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_normed(3, _STEM, 3, stride=2)]
        inputs = _STEM
        for expansion, outputs, blocks, stride in _STAGES:
            for number in range(blocks):
                first = stride if number == 0 else 1
                layers.append(InvertedResidual(inputs, outputs, first, expansion))
                inputs = outputs
        self.features = nn.Sequential(*layers, _normed(inputs, _LAST, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(_LAST, 10))

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return logits of shape (N, 10)."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))
