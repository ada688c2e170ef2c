"""ResNet-18 (He et al., arXiv 1512.03385), for small images and for ImageNet's."""

from __future__ import annotations

from armtrain import nn

__all__ = ["BasicBlock", "ResNet18", "ResNet18Imagenet"]


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with batch norm, and a shortcut around them.

    Parameters
    ----------
    inputs, outputs : int
        Channels.
    stride : int
        Of the first convolution; a 1x1 convolution makes the shortcut fit where needed.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return relu(branch(x) + shortcut(x))."""
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.relu(out + shortcut)


class ResNet18(nn.Module):
    """Four stages of two blocks on 3x32x32, with a 3x3 stem and no max-pool.

    11,173,962 parameters, and 9,600 running statistics.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.layer1 = _stage(64, 64, 1)
        self.layer2 = _stage(64, 128, 2)
        self.layer3 = _stage(128, 256, 2)
        self.layer4 = _stage(256, 512, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, 10)

    def stem(self, x: nn.Tensor) -> nn.Tensor:
        """Return what the first stage reads."""
        return self.relu(self.bn1(self.conv1(x)))

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return logits of shape (N, classes)."""
        x = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(x)))))
        return self.fc(self.avgpool(x).flatten(1))


class ResNet18Imagenet(ResNet18):
    """The network for 3x224x224 and 1000 classes: a 7x7 stem and a max-pool.

    11,689,512 parameters, and 9,600 running statistics; torchvision's names.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.fc = nn.Linear(512, 1000)

    def stem(self, x: nn.Tensor) -> nn.Tensor:
        """Return what the first stage reads."""
        return self.maxpool(super().stem(x))


def _stage(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Return two blocks, the first with `stride`."""
    return nn.Sequential(BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1))
