"""Layers whose values and gradients are stored from PyTorch: one table for both sides.

Inputs, parameters and gradients of results are multiples of 1/256 up to 2, from a counter-based
generator. Sums of products of so few of them are exact in float32, in any order: what only adds,
multiplies and chooses gives PyTorch's bits; only quotients are rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from armtrain.runtime.reference.random import stream_of_name, uniform

__all__ = ["BATCH", "LAYERS", "LayerCase", "numbers", "upstream"]

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
    roundings : int
        The most that a term of a result or of a gradient goes through in float32: one of its
        weight, one of the product, one in each addition. 0: nothing is rounded.
    """

    make: Callable[[Any], Any]
    shape: tuple[int, ...]
    roundings: int = 0


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
}


def numbers(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return multiples of 1 / STEPS in [-2, 2)."""
    count = prod(shape)
    places = np.floor(4 * STEPS * uniform(SEED, stream_of_name(name), count))
    return np.asarray(places.reshape(shape) / STEPS - 2.0)


def upstream(shape: tuple[int, ...]) -> np.ndarray:
    """Return targets in (0, 1]: the loss is the mean over samples of -target * result."""
    return (numbers("targets", shape) + 2.0 + 1 / STEPS) / 4.0
