"""Cases of layers on images and sequences: windows with uneven ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from armtrain import nn
from armtrain.nn.functional import adaptive_avg_pool2d, cat, interpolate
from tests.ops.case import CLASSES, Case, Part

__all__ = ["IMAGES", "image"]


def image(
    features: int, layers: Callable[[], list[Any]], *, part: bool = False, **more: Any
) -> Case:
    """Return a case: a layer with weights, `layers` on 4x6x7, and a classifier of `features`.

    The first layer makes sure that `layers` pass a gradient on; `part`: they get a part of it.
    """

    def build() -> Any:
        head = [nn.Flatten(), nn.Linear(features, CLASSES)]
        first = [nn.Conv2d(2, 6, 1), nn.Tanh(), Part()] if part else [nn.Conv2d(2, 4, 1), nn.Tanh()]
        return nn.Sequential(*first, *layers(), *head)

    return Case(build, (2, 6, 7), **more)


def sequence(features: int, layers: Callable[[], list[Any]]) -> Case:
    """Return the same with `layers` on 4x7."""

    def build() -> Any:
        head = [nn.Flatten(), nn.Linear(features, CLASSES)]
        return nn.Sequential(nn.Conv1d(2, 4, 1), nn.Tanh(), *layers(), *head)

    return Case(build, (2, 7))


class Shared(nn.Module):
    """Layers of images that are used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.prelu = nn.Conv2d(2, 2, 1, bias=False), nn.PReLU(2)
        self.norm, self.still = nn.BatchNorm2d(2), nn.BatchNorm2d(2).eval()
        self.last = nn.Linear(12, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        for _ in range(2):
            x = self.still(self.prelu(self.norm(self.conv(x))))
        return self.last(x.flatten(1))


class Views(nn.Module):
    """A weight that a convolution and a transposed one share, twice; layers on parts of images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, stride=2, bias=False)
        self.back = nn.ConvTranspose2d(4, 2, 3, stride=2)
        self.back.weight = self.conv.weight
        self.last = nn.Linear(85, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        y = self.conv(x).tanh()
        left, right = self.back(y[..., :2]).tanh(), self.back(y[..., 1:])
        parts = [
            interpolate(left.permute(0, 1, 3, 2), (3, 4), mode="bilinear"),
            adaptive_avg_pool2d(right[:, :, ::2], (2, 3)),
            interpolate(right[:, :1], scale_factor=1.5),
        ]
        return self.last(cat([part.flatten(1) for part in parts], 1))


def smoothed(rectifier: Callable[[], nn.Module]) -> list[Any]:
    """Return layers that need no more of their rectifiers than where these pass a gradient."""
    return [*(rectifier(), nn.AvgPool2d(3, 1, 1), rectifier(), nn.AvgPool2d(3, 1, 1))]


def normed_and_rectified() -> nn.Module:
    """Return a network whose normed values are cheaper to make again than to keep."""

    def conv(inputs: int) -> nn.Module:
        return nn.Conv2d(inputs, 4, 3, padding=1, bias=False)

    return nn.Sequential(
        *(nn.Conv2d(2, 6, 1, bias=False), Part(), nn.BatchNorm2d(4), nn.ReLU(), conv(4)),
        *(nn.BatchNorm2d(4), nn.ReLU6(), conv(4), nn.BatchNorm2d(4), nn.ReLU(), conv(4)),
        *(nn.Flatten(), nn.Linear(4 * 42, CLASSES)),
    )


IMAGES = {
    "conv_same": image(252, lambda: [nn.Conv2d(4, 6, 3, padding="same")]),
    "conv_same_even": image(
        252, lambda: [nn.Conv2d(4, 6, (2, 4), padding="same", dilation=(3, 1))]
    ),
    "conv_same_depthwise": image(168, lambda: [nn.Conv2d(4, 4, 2, padding="same", groups=4)]),
    "conv1d_same_even": sequence(42, lambda: [nn.Conv1d(4, 6, 4, padding="same")]),
    "maxpool_ceil": image(48, lambda: [nn.MaxPool2d(2, ceil_mode=True)], part=True),
    "maxpool1d_ceil": sequence(12, lambda: [nn.MaxPool1d(3, ceil_mode=True)]),
    "avgpool_ceil": image(64, lambda: [nn.AvgPool2d(3, 2, 1, ceil_mode=True)]),
    "avgpool_ceil_without_padding": image(
        24, lambda: [nn.AvgPool2d(3, (3, 4), 1, ceil_mode=True, count_include_pad=False)]
    ),
    "avgpool_divisor": image(
        64, lambda: [nn.AvgPool2d(3, 2, 1, ceil_mode=True, divisor_override=5)]
    ),
    "avgpool1d_ceil": sequence(12, lambda: [nn.AvgPool1d(3, ceil_mode=True)]),
    "prelu": image(168, lambda: [nn.PReLU()]),
    "prelu_channels": image(168, lambda: [nn.PReLU(4, init=0.4)]),
    "prelu_sequence": sequence(28, lambda: [nn.PReLU(4)]),
    "conv_transpose": image(
        594, lambda: [nn.ConvTranspose2d(4, 6, 3, stride=2, padding=2)], part=True
    ),
    "conv_transpose_options": image(
        648, lambda: [nn.ConvTranspose2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 0), 2, False, (1, 2))]
    ),
    "conv_transpose_gaps": image(  # pixels that get nothing but the bias
        1512, lambda: [nn.ConvTranspose2d(4, 6, 1, stride=(2, 3), output_padding=(1, 2))]
    ),
    "conv_transpose_depthwise": image(
        4 * 195, lambda: [nn.ConvTranspose2d(4, 4, 3, stride=2, groups=4)]
    ),
    "conv_transpose_frozen": image(
        168, lambda: [nn.ConvTranspose2d(4, 4, 1)], frozen=("2.weight", "4.bias")
    ),
    "conv_transpose1d": sequence(
        6 * 15, lambda: [nn.ConvTranspose1d(4, 6, 4, stride=2, padding=1, output_padding=1)]
    ),
    "adaptive": image(60, lambda: [nn.AdaptiveAvgPool2d((5, 3))], part=True),
    "adaptive_larger": image(4 * 88, lambda: [nn.AdaptiveAvgPool2d((8, 11))]),
    "adaptive1d": sequence(16, lambda: [nn.AdaptiveAvgPool1d(4)]),
    "nearest": image(4 * 108, lambda: [nn.Upsample((9, 12))], part=True),
    "nearest_scale": image(4 * 9 * 18, lambda: [nn.Upsample(scale_factor=(1.6, 2.6))]),
    "nearest1d": sequence(56, lambda: [nn.Upsample(scale_factor=2)]),
    "bilinear": image(4 * 120, lambda: [nn.Upsample((8, 15), mode="bilinear")]),
    "bilinear_smaller": image(
        4 * 12, lambda: [nn.Upsample(scale_factor=0.6, mode="bilinear")], part=True
    ),
    "bilinear_aligned": image(
        4 * 45, lambda: [nn.Upsample((9, 5), mode="bilinear", align_corners=True)]
    ),
    "batchnorm_again": Case(normed_and_rectified, (2, 6, 7), frozen=("5.weight", "5.bias")),
    "rectifier_by_bits": image(168, lambda: smoothed(nn.ReLU), part=True),
    "rectifier6_by_bits": image(168, lambda: smoothed(nn.ReLU6), part=True),
    "shared_on_images": Case(Shared, (2, 2, 3)),
    "views_of_images": Case(Views, (2, 6, 7)),
    "linear1d": sequence(40, lambda: [nn.Upsample(10, mode="linear")]),
}
