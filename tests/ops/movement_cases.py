"""Cases of what changes the shape, the order or the place of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from armtrain import nn
from armtrain.nn.functional import cat, stack
from tests.ops.case import CLASSES, Case

__all__ = ["MOVEMENT", "Applied", "applied"]


class Applied(nn.Module):
    """A layer with weights, a function of its value, and a classifier of `features`."""

    def __init__(self, first: Any, function: Callable[[Any], Any], features: int) -> None:
        super().__init__()
        self.first = first
        self.function = function
        self.last = nn.Linear(features, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        return self.last(self.function(self.first(x).tanh()).flatten(1))


class Last(nn.Module):
    """A layer, and a function of its value as the output."""

    def __init__(self, function: Callable[[Any], Any], layer: Any = None) -> None:
        super().__init__()
        self.layer = layer or nn.Linear(6, 6)
        self.function = function

    def forward(self, x: Any) -> Any:
        """Return the function's value."""
        return self.function(self.layer(x))


def applied(shape: tuple[int, ...], function: Callable[[Any], Any], features: int) -> Case:
    """Return a case of a function on what a linear layer makes, of the input's shape."""
    width = shape[-1]
    return Case(lambda: Applied(nn.Linear(width, width), function, features), shape)


def on_image(function: Callable[[Any], Any], features: int) -> Case:
    """Return a case of a function on a convolution's value of 4x3x5."""
    return Case(lambda: Applied(nn.Conv2d(2, 4, 1), function, features), (2, 3, 5))


def _slices(x: Any) -> Any:
    """Overlapping parts, one of them twice, and the whole."""
    y = x[:, 1:3] + x[:, 2:4]
    return cat([y, x[:, 1:3] + y, x], 1)


def _heads(x: Any) -> Any:
    """Heads of attention apart and together again."""
    heads = x.view(x.size(0), 4, 2, 3).transpose(1, 2)
    return heads.transpose(1, 2).reshape(x.size(0), 4, 6) + heads.transpose(1, 2).flatten(2)


def _rows(x: Any) -> Any:
    """Rows of all samples as one dimension."""
    rows = x.reshape(-1, 6)
    return cat([rows[:, 2:], rows[:, :2]], 1).tanh().view(x.size(0), 4, 6)


def _twice(x: Any) -> Any:
    """A value joined with itself, and the last step of a sequence."""
    return cat([x, x[:, -1:], x], 1)


class Shared(nn.Module):
    """One weight on flattened images, on rows of sequences and on plain features."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 1)
        self.fc = nn.Linear(12, 12)
        self.last = nn.Linear(12, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        y = self.fc(self.conv(x).flatten(1)).tanh()
        z = self.fc(y.unsqueeze(1)).squeeze(1)
        return self.last(z + y)


class Patches(nn.Module):
    """Patches of an image as a sequence, and back to a layer of images."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, 6, 2, stride=2)
        self.mix = nn.Linear(6, 6)
        self.conv = nn.Conv1d(6, 4, 2)
        self.image = nn.Conv2d(4, 2, 1)
        self.last = nn.Linear(10, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        sequence = self.mix(self.embed(x).flatten(2).transpose(1, 2)).tanh()
        y = self.conv(sequence.transpose(1, 2)).unflatten(2, (1, 5))
        return self.last(self.image(y).flatten(1))


class Dense(nn.Module):
    """Channels joined, cut and used again, as in dense blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(6, 4, 1)
        self.last = nn.Linear(60, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        y = self.a(x).relu()
        left, right = y.chunk(2, 1)
        z = self.b(cat([y, right], 1)) + cat((right, left), dim=1)
        return self.last(z.flatten(1))


MOVEMENT = {
    "linear_of_sequences": applied((4, 6), lambda x: x, 24),
    "linear_of_heads": applied((2, 3, 4), lambda x: x, 24),
    "slices": applied((4, 6), _slices, 48),
    "split": applied((4, 6), lambda x: cat(x.split([1, 3, 2], -1)[::-1], -1), 24),
    "strided": applied((4, 6), lambda x: x[:, 1::2, ::4], 4),
    "unbind": applied((4, 6), lambda x: stack(x.unbind(1)[:3], 2), 18),
    "last_step": applied((4, 6), lambda x: x[:, -1], 6),
    "cat_of_one_value": applied((4, 6), _twice, 54),
    "heads": applied((4, 6), _heads, 24),
    "rows": applied((4, 6), _rows, 24),
    "permute": applied((2, 3, 4), lambda x: x.permute(0, 3, 1, 2).tanh(), 24),
    "permute_5": applied((2, 3, 2, 4), lambda x: x.permute(0, 4, 2, 1, 3), 48),
    "permute_image": on_image(lambda x: x.permute(0, 3, 2, 1), 60),
    "permute_to_last": on_image(lambda x: x.permute(0, 2, 3, 1)[..., 1:], 45),
    "slice_image": on_image(lambda x: x[:, 1:3, ::2, 1:4], 12),
    "slice_flat_image": on_image(lambda x: x.flatten(1)[:, 7:40], 33),
    "cat_images": on_image(lambda x: cat([x[:, :, :2], x.relu()], 2), 100),
    "cat_orders": on_image(lambda x: cat([x, x.permute(0, 1, 3, 2).reshape(x.shape)], 1), 120),
    "shared_orders": Case(Shared, (2, 2, 2)),
    "patches": Case(Patches, (1, 6, 4)),
    "dense": Case(Dense, (2, 3, 5)),
    "conv1d_of_features": Case(
        lambda: nn.Sequential(
            *(nn.Linear(5, 5), nn.Conv1d(4, 3, 2), nn.Flatten(), nn.Linear(12, CLASSES)),
        ),
        (4, 5),
    ),
    "mse_flat_heads": Case(
        lambda: Last(lambda x: x.view(x.size(0), 4, 2, 3).transpose(1, 2).flatten(1)),
        (4, 6),
        target_shape=(24,),
    ),
    "mse_permuted_image": Case(
        lambda: Last(lambda x: x.permute(0, 2, 3, 1), nn.Conv2d(2, 3, 1)),
        (2, 4, 5),
        target_shape=(4, 5, 3),
    ),
    "mse_sequence": Case(
        lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)),
        (4, 6),
        target_shape=(4, 3),
    ),
}
