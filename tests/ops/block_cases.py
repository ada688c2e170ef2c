"""Layers whose weight is so large that its gradient is made block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from armtrain import nn, optim
from tests.ops.case import CLASSES, Case

__all__ = ["BLOCKS"]


def _matrix(optimizer: Callable[[], Any], **more: Any) -> Case:
    """Return a case of a linear layer with two blocks of 144 and 128 rows."""
    return Case(
        lambda: nn.Sequential(
            *(nn.Linear(6, 272), nn.Tanh(), nn.Linear(272, 260), nn.Tanh()),
            nn.Linear(260, CLASSES),
        ),
        (6,),
        optimizer=optimizer,
        **more,
    )


def _kernels(*layers: Callable[[], Any], features: int, **more: Any) -> Case:
    """Return a case of convolutions on images of 24 channels."""
    return Case(
        lambda: nn.Sequential(
            *(layer() for layer in layers), nn.Tanh(), nn.Flatten(), nn.Linear(features, CLASSES)
        ),
        (24, 5, 4),
        **more,
    )


BLOCKS: dict[str, Case] = {
    "blocks_sgd": _matrix(lambda: optim.SGD(lr=0.1)),
    "blocks_momentum": _matrix(
        lambda: optim.SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1), clip_value=0.01
    ),
    "blocks_adam": _matrix(lambda: optim.Adam(lr=0.01, eps=0.01)),
    "blocks_adamw": _matrix(lambda: optim.AdamW(lr=0.01, eps=0.01), clip_value=0.02),
    "blocks_rmsprop": _matrix(lambda: optim.RMSprop(eps=0.1, centered=True, momentum=0.9)),
    "blocks_adagrad": _matrix(lambda: optim.Adagrad(eps=0.1, lr_decay=0.1)),
    "blocks_frozen": _matrix(lambda: optim.SGD(lr=0.1), frozen=("0.weight", "2.bias")),
    "blocks_conv": _kernels(
        lambda: nn.Conv2d(24, 160, 3, stride=2, padding=1),
        lambda: nn.Conv2d(160, 62, 3, padding=1),
        features=62 * 3 * 2,
    ),
    "blocks_conv_groups": _kernels(
        lambda: nn.Conv2d(24, 500, (4, 3), groups=2, padding=(0, 1)), features=500 * 2 * 4
    ),
    "blocks_conv_transpose": _kernels(lambda: nn.ConvTranspose2d(24, 310, 3), features=310 * 7 * 6),
}
