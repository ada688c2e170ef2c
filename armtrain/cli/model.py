"""What the user calls a model, a loss, an optimiser: texts of the command line to objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from armtrain.cli.common import UsageError

if TYPE_CHECKING:
    from armtrain.nn import Loss
    from armtrain.optim import Optimizer
    from armtrain.zoo import ZooEntry

__all__ = ["make_groups", "make_loss", "make_optimizer", "zoo_entry"]


def make_loss(text: str) -> Loss:
    """Return the loss that 'cross_entropy' or 'mse' names."""
    from armtrain.nn import parse_loss

    try:
        return parse_loss(text)
    except ValueError as error:
        raise UsageError(f"--loss: {error}") from error


def make_optimizer(text: str) -> Optimizer:
    """Return the optimiser of a text such as 'sgd:lr=0.01,momentum=0.9'."""
    from armtrain.optim import parse_optimizer

    try:
        return parse_optimizer(text)
    except ValueError as error:
        raise UsageError(f"--optimizer: {error}") from error


def make_groups(texts: Sequence[str], optimizer: Optimizer) -> list[dict[str, Any]] | None:
    """Return the parameter groups of texts such as '*.bias:weight_decay=0'."""
    from armtrain.optim.parse import parse_group

    try:
        return [parse_group(text, optimizer) for text in texts] or None
    except ValueError as error:
        raise UsageError(f"--param-group: {error}") from error


def zoo_entry(name: str) -> ZooEntry:
    """Return the zoo's model called `name`."""
    from armtrain.zoo import entry

    try:
        return entry(name)
    except ValueError as error:
        raise UsageError(f"MODEL: {error}") from error
