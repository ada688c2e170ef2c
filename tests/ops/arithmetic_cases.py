"""Cases of arithmetic, sums and matrix products."""

from __future__ import annotations

from typing import Any

from armtrain import nn
from armtrain.nn.parameter import uniform_fan_in
from tests.ops.case import CLASSES, Case
from tests.ops.movement_cases import applied, on_image

__all__ = ["ARITHMETIC", "Pairs"]


class Scaled(nn.Module):
    """Parameters of several shapes beside a sequence or an image."""

    def __init__(self, first: Any, shapes: tuple[tuple[int, ...], ...], features: int) -> None:
        super().__init__()
        self.first = first
        self.last = nn.Linear(features, CLASSES)
        self.names = [f"p{i}" for i in range(len(shapes))]
        for name, shape in zip(self.names, shapes, strict=True):
            setattr(self, name, nn.Parameter(shape, uniform_fan_in(2)))

    def forward(self, x: Any) -> Any:
        """Return logits."""
        x = self.first(x).tanh()
        for place, name in enumerate(self.names):
            p = getattr(self, name)
            x = (x * p, x + p, x - p, p - x)[place]
        return self.last(x.flatten(1))


class Attention(nn.Module):
    """Two heads of attention without a softmax, over 4 places of 6 features."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.v = nn.Linear(6, 6), nn.Linear(6, 6)
        self.k = nn.Linear(6, 6, bias=False)  # a shift of all keys changes nothing
        self.last = nn.Linear(24, CLASSES)

    def heads(self, x: Any) -> Any:
        """Return (N, H, L, D)."""
        return x.view(x.size(0), 4, 2, 3).transpose(1, 2)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        weights = (q @ k.transpose(-2, -1) / 3**0.5).exp()
        weights = weights / weights.sum(-1, keepdim=True)
        return self.last((weights @ v).transpose(1, 2).reshape(x.size(0), 24))


class Cell(nn.Module):
    """Three steps of a gated recurrent cell, its weights shared by all."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.h = nn.Linear(6, 12), nn.Linear(4, 12, bias=False)
        self.first = nn.Linear(6, 4)
        self.last = nn.Linear(4, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits of the last step."""
        h, gates = self.first(x[:, 0]).tanh(), self.x(x)
        for step in range(1, 4):
            r, z, n = gates[:, step].chunk(3, 1)
            hr, hz, hn = self.h(h).chunk(3, -1)
            z = (z + hz).sigmoid()
            h = (1 - z) * (n + (r + hr).sigmoid() * hn).tanh() + z * h
        return self.last(h)


class Squeeze(nn.Module):
    """Channels weighed by what their means say."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.gate = nn.Conv2d(2, 4, 1), nn.Linear(4, 4)
        self.last = nn.Linear(4, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        x = self.conv(x).tanh()
        gate = self.gate(x.mean((2, 3))).sigmoid().view(x.size(0), 4, 1, 1)
        return self.last((gate * x - x.mean(1, keepdim=True)).sum(dim=(-2, -1)))


class Pairs(nn.Module):
    """Two values through one encoder, and the cosine between what it makes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(6, 4)

    def forward(self, x: Any) -> Any:
        """Return cosines (N, 1)."""
        one, other = self.encoder(x[:, 0]).tanh(), self.encoder(x[:, 1]).tanh()
        return nn.functional.cosine_similarity(one, other)


def _products(x: Any) -> Any:
    """Every way in which the operands of a product may lie."""
    y = x[:, :, :4]
    a = y @ y
    b = y.transpose(1, 2).matmul(y)
    c = y.bmm(y.mT)
    d = y.mT @ x.transpose(1, 2)[:, :4].transpose(1, 2)
    return a + b * 0.5 - c + d


def _functions(x: Any) -> Any:
    """Functions of elements, apart from 0."""
    y = x.abs() + 0.5
    return y.log() + y.sqrt() * x.exp() - y.rsqrt() + y**-1.5 + (x**3).neg() + 2 / y + x.square()


ARITHMETIC = {
    "attention": Case(Attention, (4, 6)),
    "gated_cell": Case(Cell, (4, 6)),
    "squeeze": Case(Squeeze, (2, 3, 5)),
    "matrix_products": applied((4, 6), _products, 16),
    "matrix_products_wide": applied((5, 70), lambda x: x @ (x.mT @ x), 350),
    "functions": applied((4, 6), lambda x: _functions(x[:, 1:]), 18),
    "numbers": applied((4, 6), lambda x: (3 - x * 2) * (x / 4 - 1) + 0.5 * -x, 24),
    "combined": applied((4, 6), lambda x: x * x[:, ::1] - x / (x * x + 1), 24),
    "broadcast": applied((4, 6), lambda x: x / (x[:, :1].exp() + 1) - x[:, :, 2:3] * x, 24),
    "broadcast_reversed": applied(
        (4, 6), lambda x: (x[:, :1] - x) + x[:, :, :1].exp() / (x.exp() + 1) + x[:, 1:2], 24
    ),
    "broadcast_heads": applied(
        (2, 3, 4), lambda x: x * x[:, :, :1] + x[..., :1] - x[:, :1, :, :1], 24
    ),
    "broadcast_image": on_image(
        lambda x: x * x[:, :, :1, :1] + x[:, :1] / (x.square() + 1) - x.mean(3, True), 60
    ),
    "broadcast_orders": on_image(lambda x: x + x.permute(0, 1, 3, 2).reshape(x.shape) * x, 60),
    "means": applied((4, 6), lambda x: x[:, 1:].mean(1) - x.sum(dim=1, keepdim=True).squeeze(1), 6),
    "means_of_rows": applied((2, 3, 4), lambda x: x.mean(3).sum(1, keepdim=True), 3),
    "means_of_image": on_image(lambda x: x.mean(1).flatten(1) * x.sum((1, 2)).mean(1, True), 15),
    "sums_of_columns": on_image(lambda x: x.sum(2).tanh() * x[:, :, 0], 20),
    "rows_of_samples": applied(
        (4, 6), lambda x: (x.reshape(-1, 6) * x.view(-1, 6).mean(1, True)).view(x.shape), 24
    ),
    "parameters": Case(
        lambda: Scaled(nn.Linear(6, 6), ((6,), (1, 4, 6), (4, 1), (4, 6)), 24), (4, 6)
    ),
    "parameters_frozen": Case(
        lambda: Scaled(nn.Linear(6, 6), ((6,), (1,), (4, 1), (4, 6)), 24),
        (4, 6),
        frozen=("p0", "p3"),
    ),
    "parameters_of_images": Case(
        lambda: Scaled(nn.Conv2d(2, 4, 1), ((4, 1, 1), (4, 3, 5), (5,), (1, 4, 3, 1)), 60),
        (2, 3, 5),
    ),
    "parameters_of_channels": Case(
        lambda: Scaled(nn.Conv1d(3, 4, 2), ((4, 1), (4, 5), (5,)), 20), (3, 6)
    ),
    "parameters_one_sample": Case(
        lambda: Scaled(nn.Linear(6, 6), ((1, 4, 6), (6,)), 24), (4, 6), batch_size=1
    ),
}
