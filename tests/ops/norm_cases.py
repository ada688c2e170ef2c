"""Normalisation by statistics of a sample: cases of the table in `cases.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from armtrain import nn
from tests.ops.case import CLASSES, Case, Part

__all__ = ["SAMPLE_NORMS"]


class SharedNorm(nn.Module):
    """One norm on values of two ranks: one weight, two uses."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.norm = nn.LayerNorm(6)
        self.last = nn.Linear(6, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        return self.last(self.norm(self.norm(self.first(x)).tanh()[:, 1]))


def between(shape: tuple[int, ...], flat: int, norm: Callable[[], Any], **more: Any) -> Case:
    """Return a case: a linear layer on samples of a shape, a norm, tanh, and a classifier."""
    return Case(
        lambda: nn.Sequential(
            *(nn.Linear(shape[-1], shape[-1]), norm(), nn.Tanh(), nn.Flatten()),
            nn.Linear(flat, CLASSES),
        ),
        shape,
        **more,
    )


def on_images(norm: Callable[[], Any], **more: Any) -> Case:
    """Return a case: a convolution to 6x4x5, tanh, a norm, tanh, and a classifier."""
    return Case(
        lambda: nn.Sequential(
            *(nn.Conv2d(2, 6, 2), nn.Tanh(), norm(), nn.Tanh(), nn.Flatten()),
            nn.Linear(120, CLASSES),
        ),
        (2, 5, 6),
        **more,
    )


def tied_norm() -> nn.LayerNorm:
    """Return a norm whose weight is its bias, too."""
    norm = nn.LayerNorm(6)
    norm.bias = norm.weight
    return norm


SAMPLE_NORMS = {
    "layernorm": between((7,), 7, lambda: nn.LayerNorm(7)),
    "layernorm_of_sequences": between(
        (4, 6), 12, lambda: nn.Sequential(Part(), nn.LayerNorm(6, eps=1e-3))
    ),
    "layernorm_of_several": between((3, 2, 4), 24, lambda: nn.LayerNorm((2, 4))),
    "layernorm_no_bias": between((4, 6), 24, lambda: nn.LayerNorm(6, bias=False)),
    "layernorm_plain": between((4, 6), 24, lambda: nn.LayerNorm(6, elementwise_affine=False)),
    "layernorm_frozen": between((4, 6), 24, lambda: nn.LayerNorm(6), frozen=("1.weight", "1.bias")),
    "layernorm_frozen_weight": between((4, 6), 24, lambda: nn.LayerNorm(6), frozen=("1.weight",)),
    "layernorm_tied": between((4, 6), 24, tied_norm),
    "layernorm_shared": Case(SharedNorm, (3, 4)),
    "layernorm_first": Case(
        lambda: nn.Sequential(nn.LayerNorm((2, 3)), nn.Flatten(), nn.Linear(6, CLASSES)), (2, 3)
    ),
    "layernorm_of_images": on_images(lambda: nn.LayerNorm([6, 4, 5])),
    "layernorm_of_rows_of_images": on_images(lambda: nn.LayerNorm(5)),
    "rmsnorm": between((4, 6), 24, lambda: nn.RMSNorm(6)),
    "rmsnorm_plain": between((7,), 7, lambda: nn.RMSNorm(7, 1e-3, elementwise_affine=False)),
    "groupnorm": on_images(lambda: nn.GroupNorm(3, 6)),
    "groupnorm_of_one": on_images(lambda: nn.GroupNorm(1, 6, eps=1e-3)),
    "groupnorm_of_channels": on_images(lambda: nn.GroupNorm(6, 6, affine=False)),
    "groupnorm_frozen": on_images(lambda: nn.GroupNorm(2, 6), frozen=("2.weight", "2.bias")),
    "groupnorm_of_features": between((6,), 6, lambda: nn.GroupNorm(2, 6)),
    "groupnorm_of_sequences": between((4, 6), 24, lambda: nn.GroupNorm(2, 4)),
    "groupnorm_first": Case(lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.Linear(4, CLASSES)), (4,)),
}
