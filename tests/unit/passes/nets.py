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


def _cat(nn: Any, values: list[Any], dim: int) -> Any:
    """Join values with the function of the framework that `nn` belongs to."""
    if hasattr(nn.functional, "cat"):
        return nn.functional.cat(values, dim)
    import torch

    return torch.cat(values, dim)


def attention(nn: Any) -> Any:
    """Patches of an image, two heads of attention, and a mean over the patches."""

    class Attention(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Conv2d(3, 8, 2, stride=2)
            self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
            self.fc = nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            x = self.embed(x).flatten(2).transpose(1, 2)
            q, k, v = self.qkv(x).view(x.size(0), -1, 3, 2, 4).permute(0, 2, 3, 1, 4).unbind(1)
            weights = (q @ k.transpose(-2, -1) * 0.5).exp()
            y = (weights / weights.sum(-1, keepdim=True)) @ v
            x = x + self.out(y.transpose(1, 2).flatten(2))
            return self.fc((x - x.mean(1, keepdim=True)).square().mean(1).sqrt())

    return Attention()


def recurrent(nn: Any) -> Any:
    """Rows of an image as steps of a recurrent cell, whose states are joined."""

    class Recurrent(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.x, self.h = nn.Linear(15, 12), nn.Linear(6, 12)
            self.fc = nn.Linear(18, 5)

        def forward(self, x: Any) -> Any:
            x = self.x(x.permute(0, 2, 3, 1).flatten(2))
            h, states = (x[:, 0, :6] / 2).tanh(), []
            for step in range(1, 4):
                z, n = (x[:, step] + self.h(h)).chunk(2, -1)
                z = z.sigmoid()
                h = (1 - z) * n.tanh() + z * h
                states.append(h)
            return self.fc(_cat(nn, states, 1))

    return Recurrent()


_BUILDERS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "Residual": (residual, (3, 8, 8)),
    "SelfSum": (self_sum, (3, 2, 2)),
    "ManyUses": (many_uses, (3, 3, 3)),
    "SharedLinear": (shared_linear, (3, 3, 3)),
    "MixedOrders": (mixed_orders, (3, 3, 3)),
    "FlatImage": (flat_image, (3, 3, 3)),
    "Attention": (attention, (3, 4, 6)),
    "Recurrent": (recurrent, (3, 4, 5)),
    "ImageOut": (image_out, (3, 5, 5)),
}

NETS = {name: shape for name, (_, shape) in _BUILDERS.items()}
"""Name to input shape."""


def build(nn: Any, name: str) -> Any:
    """Return network `name` made of the layers of `nn`."""
    return _BUILDERS[name][0](nn)
