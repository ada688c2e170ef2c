"""What a case of the table of small networks is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from armtrain import nn, optim

__all__ = ["CLASSES", "Case", "Part"]

CLASSES = 5


class Part(nn.Module):
    """A part of the features or channels: all but the first and the last."""

    def forward(self, x: Any) -> Any:
        """Return what is between."""
        return x[:, 1:-1]


@dataclass(frozen=True)
class Case:
    """One network with its training set-up.

    Attributes
    ----------
    build : callable
        Returns a fresh module.
    input_shape : tuple of int
        One sample, torch's order.
    target_shape : tuple of int or None
        None: class labels; else such float targets.
    inputs : callable
        Makes normally distributed numbers, shape (n, *input_shape), what the network takes.
    loss : callable or None
        Returns the loss; None: cross-entropy for labels, else mean squared error.
    targets : callable
        Makes normally distributed numbers what the loss takes.
    optimizer : callable
        Returns the optimiser.
    clip_norm, clip_value : float or None
    frozen : tuple of str
        Parameters that are not trained.
    batch_size : int
    smallest : int
        Smallest batch that trains (2 where batch normalisation sees one value per sample; more
        where a few labels may all be ignored or weigh nothing).
    """

    build: Callable[[], Any]
    input_shape: tuple[int, ...]
    target_shape: tuple[int, ...] | None = None
    inputs: Callable[[Any], Any] = lambda normal: normal
    loss: Callable[[], Any] | None = None
    targets: Callable[[Any], Any] = lambda normal: normal
    optimizer: Callable[[], Any] = field(default=lambda: optim.SGD(lr=0.1))
    clip_norm: float | None = None
    clip_value: float | None = None
    frozen: tuple[str, ...] = ()
    batch_size: int = 3
    smallest: int = 1
