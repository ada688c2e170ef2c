"""Cases of attention."""

from __future__ import annotations

from typing import Any

from armtrain import nn
from armtrain.nn import functional
from tests.ops.case import CLASSES, Case

__all__ = ["ATTENTION"]


class Heads(nn.Module):
    """Causal self-attention, and attention to another length whose keys may all be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.MultiheadAttention(4, 2, batch_first=True)
        self.other = nn.MultiheadAttention(4, 1, bias=False, batch_first=True)
        self.last = nn.Linear(24, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        y, _ = self.own(x, x, x, is_causal=True)
        z, shares = self.other(y, x[:, :2], y[:, ::2], mask=x[:, :2, 0].relu())
        return self.last(functional.cat([z.flatten(1), shares.flatten(1)], 1))


class Placed(nn.Module):
    """Places told to channels-last values, of which an image's order would mix them up."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv1d(3, 4, 2), nn.Linear(24, CLASSES)
        self.places = nn.PositionalEncoding(6, 4, base=50.0)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        return self.last(self.places(self.conv(x)).tanh().flatten(1))


class Parts(nn.Module):
    """Parts of one value that attend to each other, with a mask that a trained layer makes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 12), nn.Linear(12, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        y = self.first(x)
        q, k, v = y.transpose(1, 2).unflatten(1, (3, 2, 2)).unbind(1)
        z = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)
        gate = y[:, 0, :2].relu()
        z = functional.scaled_dot_product_attention(z, k, z, mask=gate)
        return self.last(z.flatten(1))


class Twice(nn.Module):
    """A layer of a transformer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            *(4, 2, 3, 0.2, functional.tanh), batch_first=True, norm_first=True
        )
        self.last = nn.Linear(12, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        y = self.layer(self.layer(x, is_causal=True), mask=x[:, :, 0].exp())
        return self.last(y.flatten(1))


ATTENTION = {
    "attention": Case(Heads, (4, 4)),
    "places": Case(Placed, (3, 7)),
    "attention_parts": Case(Parts, (3, 4)),
    "encoder_layer": Case(Twice, (3, 4), frozen=("layer.self_attn.in_proj_weight",)),
}
