"""A recurrent classifier of sequences."""

from __future__ import annotations

from armtrain import nn

__all__ = ["Lstm"]


class Lstm(nn.Module):
    """One LSTM layer of 256 units over steps of 64 values, and a linear layer of its last state.

    Parameters
    ----------
    num_classes : int
    """

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.lstm = nn.LSTM(64, 256, batch_first=True)
        self.fc = nn.Linear(256, num_classes)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return logits (N, classes) of sequences (N, L, 64)."""
        _, (h_n, _) = self.lstm(x)
        logits: nn.Tensor = self.fc(h_n[-1])
        return logits
