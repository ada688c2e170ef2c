"""Indices of an embedding are no numbers from 0 to 1: networks that take them so are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import armtrain as at
from armtrain import nn
from armtrain.ir.graph import NodeKind
from armtrain.nn.input_parts import input_elements

Forward = Callable[[Any, Any], Any]


class Net(nn.Module):
    """Tokens and a mask, (N, L, 2), through an embedding and a layer."""

    def __init__(self, forward: Forward, layer: nn.Module, rows: int = 50) -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(rows, 4), layer
        self.numbers = nn.Linear(2, 4)
        self.call = forward

    def forward(self, x: Any) -> Any:
        """Return what the function makes of the input."""
        return self.call(self, x)


def gru() -> nn.Module:
    return nn.GRU(4, 3, batch_first=True)


def attention() -> nn.Module:
    return nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)


@pytest.mark.parametrize(
    ("call", "layer", "said"),
    [
        (
            lambda net, x: net.layer(net.table(x[:, :, 0]), mask=x[:, :, 0])[0],
            gru,
            r"layer 'layer': mask takes elements .* indices of the embedding 'table', 0 to 49: a "
            r"mask is 1 where a step counts .*pad_sequences makes it",
        ),
        (
            lambda net, x: net.layer(net.table(x[:, :, 1]), mask=x[:, :, 1])[0],
            gru,
            "or give the embedding the part of the input that holds its indices",
        ),
        (
            lambda net, x: net.layer(
                net.table(x.transpose(1, 2)[:, 0]), mask=x.reshape(-1, 6)[:, ::2]
            )[0],
            gru,
            "layer 'layer': mask takes",
        ),
        (
            lambda net, x: (
                net.layer(net.numbers(x), mask=x[:, :, 0])[0]
                + net.table(x[:, 0, :1]).sum((1, 2), keepdim=True)
            ),
            gru,
            "layer 'layer': mask takes",
        ),
        (
            lambda net, x: net.layer(net.table(x[:, :, 0]), src_key_padding_mask=x[:, :, 0]),
            attention,
            r"'layer.self_attn': MultiheadAttention: key_padding_mask takes .* mask= takes indices",
        ),
    ],
)
def test_indices_as_a_mask_are_refused(call: Forward, layer: Any, said: str) -> None:
    with pytest.raises(at.ShapeError, match=said):
        nn.trace(Net(call, layer()), (3, 2), 2)


@pytest.mark.parametrize(
    ("call", "layer", "rows"),
    [
        (lambda net, x: net.layer(net.table(x[:, :, 0]), mask=x[:, :, 1])[0], gru, 50),
        (lambda net, x: net.layer(net.table(x[:, :, 0]), mask=x[:, :, 0])[0], gru, 2),
        (
            lambda net, x: net.layer(net.table(x[:, :, 0]), mask=1 - (1 - x[:, :, 0]).relu())[0],
            gru,
            50,
        ),
        (lambda net, x: net.layer(net.table(x[:, :, 0]), mask=x[:, :, 0]), attention, 50),
        (lambda net, x: net.layer(net.table(x[:, :, 0])), attention, 50),
    ],
)
def test_what_may_be_a_mask_is_taken(call: Forward, layer: Any, rows: int) -> None:
    """Another part, the indices 0 and 1, what is computed, and keys that count where they are."""
    nn.trace(Net(call, layer(), rows), (3, 2), 2)


def test_elements_are_followed_to_the_input() -> None:
    """Three places of four numbers, in two samples."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, 2)

        def forward(self, x: Any) -> Any:
            y = self.table(x.transpose(1, 2)[:, 1:].reshape(-1, 3, 3)[:, :, ::2])
            z = self.table(x.reshape(-1, 2, 2)[:, 1, :1].reshape(2, 1, 3, 1))
            return y.mean((1, 2)) + z.mean((1, 2, 3))

    graph = nn.trace(Two(), (3, 4), 2)
    tables = [node for node in graph.nodes if node.kind == NodeKind.EMBEDDING]
    found = [input_elements(graph.nodes, node.inputs[0], 2) for node in tables]
    assert found == [[1, 9, 2, 10, 3, 11], [2, 6, 10]]
    assert input_elements(graph.nodes, graph.output, 2) is None
