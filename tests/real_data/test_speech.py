"""Spoken digits as 13 coefficients a frame (Free Spoken Digit Dataset)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim

pytestmark = pytest.mark.real_data

FRAMES, TRAINED = 16, 2400


def read_clips(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return all clips stretched to FRAMES frames, (N, 13, FRAMES), and their digits."""
    with np.load(path) as stored:
        frames, digits, lengths = stored["X"], stored["y"], stored["lengths"]
    clips = []
    for clip in np.split(frames, np.cumsum(lengths)[:-1]):
        places = np.linspace(0, len(clip) - 1, FRAMES)
        clips.append([np.interp(places, np.arange(len(clip)), column) for column in clip.T])
    return np.asarray(clips, np.float32), digits.astype(np.int64)


def test_convolutions_over_time(folder_of: Callable[[str], Path]) -> None:
    """PyTorch reached 98.2 to 98.7 % with 10,000 parameters."""
    x, y = read_clips(folder_of("spoken-digits") / "digits.npz")
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order], y[order]
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
