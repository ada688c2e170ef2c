"""Networks with attention, written once for PyTorch and armtrain, and their data.

The first feature of a place says whether it counts, 1 or 0. torch takes masks of its own: which
keys are padding, and which places hide from which.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from armtrain.runtime.reference.random import stream_of_name, uniform
from tests.golden.runs import SEED, causal, initial_weights

__all__ = ["ATTENTION", "SHAPE", "attention_weights", "make_attention", "samples"]

SHAPE = (4, 4)
_COUNTS = ([1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 0])


def samples() -> np.ndarray:
    """Return the samples (3, places, features)."""
    x = 2.0 * uniform(SEED, stream_of_name("attention"), 3 * 16).reshape(3, *SHAPE) - 1.0
    x[:, :, 0] = _COUNTS
    return np.asarray(x, np.float64)


def attention_weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return a parameter."""
    return initial_weights(name, shape).astype(np.float64)


def _padding(nn: Any, x: Any, name: str = "key_padding_mask") -> dict[str, Any]:
    """Return the arguments that leave out what does not count."""
    return {name: x[:, :, 0] == 0} if hasattr(nn, "Transformer") else {"mask": x[:, :, 0]}


def _self(nn: Any, net: Any) -> Any:
    net.first = nn.Linear(4, 4)
    net.heads = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(x: Any) -> Any:
        y = net.first(x)
        z, shares = net.heads(y, y, y, **_padding(nn, x), **causal(nn, 4))
        return z + shares @ y

    return forward


def _cross(nn: Any, net: Any) -> Any:
    net.first, net.second, net.third = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
    net.heads = nn.MultiheadAttention(4, 4, bias=False, batch_first=True)

    def forward(x: Any) -> Any:
        query, key = net.first(x[:, 1:3]), net.second(x)
        z, shares = net.heads(
            query, key, net.third(x), average_attn_weights=False, **_padding(nn, x)
        )
        return z + shares[:, 1] @ key

    return forward


def _function(nn: Any, net: Any) -> Any:
    net.first, net.second, net.third = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(4, 4)

    def forward(x: Any) -> Any:
        q, k, v = (
            layer(x).unflatten(2, (2, -1)).transpose(1, 2)
            for layer in (net.first, net.second, net.third)
        )
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.7)
        return attended.transpose(1, 2).flatten(2)

    return forward


def _layer(norm_first: bool) -> Any:
    def build(nn: Any, net: Any) -> Any:
        net.layer = nn.TransformerEncoderLayer(
            *(4, 2, 6, 0.0, "gelu" if norm_first else "relu"),
            batch_first=True,
            norm_first=norm_first,
        )
        return lambda x: net.layer(x, **_padding(nn, x, "src_key_padding_mask"))

    return build


ATTENTION = {
    "self": _self,
    "cross": _cross,
    "function": _function,
    "layer": _layer(False),
    "layer_norm_first": _layer(True),
}


def make_attention(nn: Any, name: str) -> Any:
    """Return a network; its output is (N, places, features)."""

    class Net(nn.Module):  # type: ignore[misc]
        """One of the networks above."""

        def __init__(self) -> None:
            super().__init__()
            self.compute = ATTENTION[name](nn, self)

        def forward(self, x: Any) -> Any:
            """Return what it computes."""
            return self.compute(x)

    return Net()
