"""Spoken digits as 13 coefficients a frame (Free Spoken Digit Dataset)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.data import pad_sequences

pytestmark = pytest.mark.real_data

FRAMES, TRAINED = 16, 2400


class Listener(nn.Module):
    """A recurrent network of frames and their mask; its last state tells the digit."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.fc = nn.GRU(13, 32, batch_first=True), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        """Return logits of (N, L, 14)."""
        _, (last,) = self.gru(x[:, :, :-1], mask=x[:, :, -1])
        return self.fc(last)


def read_clips(folder: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """Return all clips, each (frames, 13), and their digits in an order by chance."""
    with np.load(folder / "digits.npz") as stored:
        frames, digits, lengths = stored["X"], stored["y"], stored["lengths"]
    clips = np.split(frames, np.cumsum(lengths)[:-1])
    order = np.random.default_rng(0).permutation(len(digits))
    return [clips[i] for i in order], digits[order].astype(np.int64)


def stretched(clip: np.ndarray) -> list[np.ndarray]:
    """Return a clip of FRAMES frames, (13, FRAMES)."""
    places = np.linspace(0, len(clip) - 1, FRAMES)
    return [np.interp(places, np.arange(len(clip)), column) for column in clip.T]


def test_convolutions_over_time(folder_of: Callable[[str], Path]) -> None:
    """PyTorch reached 98.2 to 98.7 % with 10,000 parameters."""
    clips, y = read_clips(folder_of("spoken-digits"))
    x = np.asarray([stretched(clip) for clip in clips], np.float32)
    mean, deviation = x[:TRAINED].mean((0, 2)), x[:TRAINED].std((0, 2))
    x = (x - mean[:, None]) / deviation[:, None]
    net = nn.Sequential(
        *(nn.Conv1d(13, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2)),
        *(nn.Conv1d(32, 64, 3, padding=1), nn.BatchNorm1d(64), nn.ReLU(), nn.MaxPool1d(2)),
        *(nn.Flatten(), nn.Dropout(0.3), nn.Linear(256, 10)),
    )
    plan = at.plan(
        net,
        input_shape=(13, FRAMES),
        batch_size=32,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.Adam(lr=0.002),
    )
    trainer = at.Trainer(plan, seed=0)
    trainer.fit((x[:TRAINED], y[:TRAINED]), epochs=30)
    accuracy = trainer.evaluate((x[TRAINED:], y[TRAINED:])).accuracy
    assert accuracy is not None
    assert accuracy >= 0.975


@pytest.mark.parametrize("seed", range(3))
def test_recurrent_network_over_clips_of_6_to_92_frames(
    folder_of: Callable[[str], Path], seed: int
) -> None:
    """Half of the clips have 17 frames at most; the mask leaves the rest out."""
    clips, y = read_clips(folder_of("spoken-digits"))
    known = np.concatenate(clips[:TRAINED])
    mean, deviation = known.mean(0), known.std(0)
    x = pad_sequences([(clip - mean) / deviation for clip in clips])
    assert x.shape == (3000, 92, 14)
    plan = at.plan(
        Listener(),
        input_shape=x.shape[1:],
        batch_size=32,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.Adam(lr=0.005),
        clip_norm=1.0,
    )
    trainer = at.Trainer(plan, seed=seed)
    trainer.fit(
        (x[:TRAINED], y[:TRAINED]),
        epochs=15,
        schedule=optim.lr_scheduler.CosineAnnealingLR(T_max=15),
    )
    accuracy = trainer.evaluate((x[TRAINED:], y[TRAINED:])).accuracy
    assert accuracy is not None
    assert accuracy >= 0.96
