"""Small networks that hold what compilers get wrong, written once for armtrain and torch.

Every function takes `armtrain.nn` or `torch.nn` and returns the network made of its layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["NETS", "build"]


def residual(nn: Any) -> Any:
    """Batch norm, groups, a projected shortcut, a doubled value, max-pool."""

    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(8)
            self.conv2 = nn.Conv2d(8, 8, 3, padding=1, groups=2)
            self.bn2 = nn.BatchNorm2d(8)
            self.down = nn.Sequential(nn.Conv2d(3, 8, 1, bias=False), nn.BatchNorm2d(8))
            self.conv3 = nn.Conv2d(8, 8, 3, stride=2, padding=1)
            self.pool = nn.MaxPool2d(2)
            self.relu = nn.ReLU()
            self.fc = nn.Linear(32, 5)

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            y = self.conv3(self.relu(y + self.down(x))).relu()
            return self.fc(self.pool(y + y).flatten(1))

    return Residual()


def self_sum(nn: Any) -> Any:
    """Sum of relu(x) and x, and one layer used twice."""

    class SelfSum(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(12, 6)
            self.b = nn.Linear(6, 6)

        def forward(self, x: Any) -> Any:
            x = self.a(x.flatten(1))
            y = x.relu() + x
            z = self.b(y) + y
            return self.b(z.tanh()) + z + y

    return SelfSum()


def many_uses(nn: Any) -> Any:
    """A value with four uses, one of them the output's sum."""

    class ManyUses(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(27, 6), nn.Linear(6, 6)
            self.c, self.d = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x: Any) -> Any:
            x = self.a(x.flatten(1)).tanh()
            return self.d(self.b(x) + self.c(x).relu() + x) + x

    return ManyUses()


def shared_linear(nn: Any) -> Any:
    """One weight on a flattened image and on plain features."""

    class SharedLinear(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 2)
            self.fc = nn.Linear(12, 12)

        def forward(self, x: Any) -> Any:
            return self.fc(self.fc(self.conv(x).flatten(1).tanh()).tanh())

    return SharedLinear()


def mixed_orders(nn: Any) -> Any:
    """A flattened image added to plain features."""

    class MixedOrders(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 2)
            self.fc = nn.Linear(12, 12)

        def forward(self, x: Any) -> Any:
            y = self.conv(x).relu().flatten(1)
            return self.fc(y) + y

    return MixedOrders()


def flat_image(nn: Any) -> Any:
    """The output is a flattened image after a batch norm without parameters."""

    class FlatImage(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 2)
            self.bn = nn.BatchNorm2d(4, affine=False)

        def forward(self, x: Any) -> Any:
            return self.bn(self.conv(x)).relu().flatten(1)

    return FlatImage()


def image_out(nn: Any) -> Any:
    """The output is an image."""

    class ImageOut(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Conv2d(3, 4, 3, padding=1)
            self.pool = nn.AvgPool2d((2, 1), 1, padding=(1, 0))
            self.b = nn.Conv2d(4, 3, 1)

        def forward(self, x: Any) -> Any:
            return self.b(self.pool(self.a(x)).tanh())

    return ImageOut()


_BUILDERS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "Residual": (residual, (3, 8, 8)),
    "SelfSum": (self_sum, (3, 2, 2)),
    "ManyUses": (many_uses, (3, 3, 3)),
    "SharedLinear": (shared_linear, (3, 3, 3)),
    "MixedOrders": (mixed_orders, (3, 3, 3)),
    "FlatImage": (flat_image, (3, 3, 3)),
    "ImageOut": (image_out, (3, 5, 5)),
}

NETS = {name: shape for name, (_, shape) in _BUILDERS.items()}
"""Name to input shape."""


def build(nn: Any, name: str) -> Any:
    """Return network `name` made of the layers of `nn`."""
    return _BUILDERS[name][0](nn)
