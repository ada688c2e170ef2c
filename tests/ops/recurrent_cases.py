"""Cases of recurrent networks."""

from __future__ import annotations

from typing import Any

from armtrain import nn
from armtrain.nn.functional import cat
from tests.ops.case import CLASSES, Case

__all__ = ["RECURRENT"]


class Recurrent(nn.Module):
    """A recurrent network whose outputs and last states a classifier reads."""

    def __init__(self, layers: Any, features: int, masked: bool = False) -> None:
        super().__init__()
        self.layers, self.last = layers, nn.Linear(features, CLASSES)
        self.masked = masked

    def forward(self, x: Any) -> Any:
        """Return logits."""
        mask = x[:, :, 0].sigmoid() if self.masked else None
        output, state = self.layers(x, mask=mask)
        states = state if isinstance(state[0], nn.Tensor) else (*state[0], *state[1])
        return self.last(cat([output.flatten(1), *states], 1))


class Cells(nn.Module):
    """Cells that hand their states on."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(2, 3), nn.GRUCell(3, 2, bias=False)
        self.rnn, self.last = nn.RNNCell(2, 3), nn.Linear(3, CLASSES)

    def forward(self, x: Any) -> Any:
        """Return logits after two steps."""
        h, c = self.lstm(x[:, 0])
        h, c = self.lstm(x[:, 1], (h, c))
        return self.last(self.rnn(self.gru(h, x[:, 2]), c))


RECURRENT = {
    "rnn": Case(lambda: Recurrent(nn.RNN(2, 3, batch_first=True), 12), (3, 2)),
    "lstm": Case(
        lambda: Recurrent(nn.LSTM(2, 3, 2, batch_first=True, bidirectional=True), 42), (3, 2)
    ),
    "gru_masked": Case(
        lambda: Recurrent(nn.GRU(2, 3, batch_first=True, bidirectional=True), 24, True), (3, 2)
    ),
    "lstm_masked": Case(lambda: Recurrent(nn.LSTM(2, 3, batch_first=True), 15, True), (3, 2)),
    "recurrent_cells": Case(Cells, (3, 2)),
}
