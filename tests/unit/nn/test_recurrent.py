"""Recurrent layers: masks, parameters, refusals."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.runtime.reference import ReferenceExecutor


class Masked(nn.Module):
    """The outputs and the last states of a sequence whose first feature is its mask."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.layers = nn.LSTM(3, 2, 2, batch_first=True, bidirectional=True)
        self.masked = masked

    def forward(self, x: Any) -> Any:
        """Return all there is."""
        output, (h, c) = self.layers(x, mask=x[:, :, 0] if self.masked else None)
        return nn.functional.cat([*h, *c, output.flatten(1)], 1)


def outputs(masked: bool, x: np.ndarray) -> np.ndarray:
    """Return what the network gives for one sequence."""
    length = x.shape[1]
    plan = at.plan(
        Masked(masked),
        input_shape=(length, 3),
        batch_size=1,
        loss=nn.MSELoss(),
        optimizer=optim.SGD(lr=0.1),
    )
    executor = ReferenceExecutor(plan, seed=7)
    executor.initialize()
    return np.asarray(executor.predict_step(x))


def test_what_a_mask_leaves_out_changes_nothing() -> None:
    x = np.random.default_rng(0).normal(size=(1, 5, 3)).astype(np.float32)
    x[:, :, 0] = [1, 1, 1, 0, 0]
    alone, padded = outputs(False, x[:, :3]), outputs(True, x)
    np.testing.assert_allclose(padded[:, : alone.shape[1]], alone, rtol=1e-12)
    np.testing.assert_array_equal(padded[:, alone.shape[1] :], 0.0)


def test_parameters_have_the_names_and_the_order_of_torch() -> None:
    layers = nn.GRU(4, 3, 2, batch_first=True, bidirectional=True)
    shapes = {name: p.shape for name, p in layers.named_parameters()}
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    suffixes = ("_l0", "_l0_reverse", "_l1", "_l1_reverse")
    assert list(shapes) == [kind + suffix for suffix in suffixes for kind in kinds]
    assert shapes["weight_ih_l0"] == (9, 4)
    assert shapes["weight_ih_l1_reverse"] == (9, 6)
    assert [name for name, _ in nn.LSTMCell(4, 3, bias=False).named_parameters()] == [
        "weight_ih",
        "weight_hh",
    ]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: nn.LSTM(4, 3), "batch_first=True"),
        (lambda: nn.LSTM(4, 3, batch_first=True, proj_size=2), "proj_size"),
        (lambda: nn.RNN(4, 3, batch_first=True, nonlinearity="elu"), "'tanh' or 'relu'"),
        (lambda: nn.GRU(4, 3, num_layers=0, batch_first=True), "num_layers"),
    ],
)
def test_arguments_are_refused(build: Any, words: str) -> None:
    with pytest.raises(at.ArgumentError, match=words):
        build()


class Called(nn.Module):
    """A layer called in some way."""

    def __init__(self, layer: Any, call: Any) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x: Any) -> Any:
        """Return the first value."""
        return self.call(self.layer, x)[0]


@pytest.mark.parametrize(
    ("layer", "call", "words"),
    [
        (nn.GRU(4, 3, batch_first=True), lambda layer, x: layer(x[:, 0]), "sequences of shape"),
        (nn.GRU(4, 3, batch_first=True), lambda layer, x: layer(x, mask=x[:, 0]), "mask of shape"),
        (nn.GRU(4, 3, batch_first=True), lambda layer, x: layer(x, x[:, 0]), "1 tensors of shape"),
        (nn.LSTM(4, 3, batch_first=True), lambda layer, x: layer(x, x[:, 0]), "a pair"),
        (nn.LSTMCell(4, 3), lambda layer, x: layer(x), "a step takes"),
        (nn.GRU(4, 3, batch_first=True), lambda layer, x: nn.ReLU()(layer(x)), "tuple of 2 values"),
        (nn.LSTMCell(4, 3), lambda layer, x: layer(x[:, 0], (x[:, 0],)), "2 tensors of shape"),
    ],
)
def test_values_are_refused(layer: Any, call: Any, words: str) -> None:
    with pytest.raises(at.ShapeError, match=words):
        nn.trace(Called(layer, call), (5, 4), 2)


def test_arguments_are_shown() -> None:
    lstm = nn.LSTM(4, 3, 2, bias=False, batch_first=True, dropout=0.5, bidirectional=True)
    assert repr(lstm) == (
        "LSTM(4, 3, num_layers=2, bias=False, batch_first=True, dropout=0.5, bidirectional=True)"
    )
    rnn = nn.RNN(4, 3, nonlinearity="relu", batch_first=True)
    assert repr(rnn) == "RNN(4, 3, nonlinearity='relu', batch_first=True)"
    cell = nn.RNNCell(4, 3, nonlinearity="relu")
    assert repr(cell) == "RNNCell(4, 3, bias=True, nonlinearity='relu')"


def test_gradients_of_shared_weights_do_not_wait_for_each_other() -> None:
    steps, hidden = 40, 64
    net = Called(nn.RNN(2, hidden, batch_first=True), lambda layer, x: layer(x)[1])
    plan = at.plan(
        net,
        input_shape=(steps, 2),
        batch_size=1,
        loss=nn.MSELoss(),
        optimizer=optim.SGD(lr=0.1),
        threads=1,
    )
    assert plan.arena_bytes - plan.workspace_bytes < steps // 4 * 4 * hidden**2


class LastState(nn.Module):
    """A layer of 256 units and a classifier of its last state."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(64, 256, batch_first=True)
        self.fc = nn.Linear(256, 10)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        _, state = self.layer(x)
        return self.fc(state[0][0] if isinstance(state[0], tuple) else state[0])


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_the_document_has_the_bytes_of_every_length(kind: str) -> None:
    text = (Path(__file__).parents[3] / "docs/recurrent.md").read_text(encoding="utf-8")
    (row,) = (line.split("|") for line in text.splitlines() if line.startswith(f"| `{kind}` |"))
    planned = [
        at.plan(
            LastState(kind),
            input_shape=(steps, 64),
            batch_size=32,
            loss=nn.CrossEntropyLoss(),
            optimizer=optim.SGD(lr=0.01),
        ).arena_bytes
        for steps in (20, 100, 200)
    ]
    weights = sum(prod(p.shape) for _, p in LastState(kind).named_parameters())
    assert [cell.strip() for cell in row[2:6]] == [f"{n:,}" for n in (weights, *planned)]
