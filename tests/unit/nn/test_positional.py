"""Positional encoding: values, and refusals."""

from __future__ import annotations

from math import cos, pi, sin
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim

# (place, feature) -> value of 8 features.
SOME = {(1, 0): sin(1.0), (1, 1): cos(1.0), (3, 2): sin(0.3), (3, 3): cos(0.3), (7, 5): cos(0.07)}


def trainer_of(length: int, size: int) -> at.Trainer:
    """Return a trainer of a network that adds places."""
    net = nn.Sequential(nn.Linear(size, size), nn.PositionalEncoding(size, length))
    plan = at.plan(
        net,
        loss=nn.MSELoss(),
        input_shape=(length, size),
        batch_size=2,
        optimizer=optim.SGD(lr=0.1),
    )
    return at.Trainer(plan)


def test_values_are_sines_and_cosines() -> None:
    places = trainer_of(9, 8).state_dict()["1.pe"]
    for where, value in SOME.items():
        assert places[where] == pytest.approx(value, rel=2.0**-23)
    rows, columns = np.mgrid[:9, :8]
    angles = rows * 10000.0 ** (-(columns // 2) / 4.0)
    exact = np.where(columns % 2, np.cos(angles), np.sin(angles))
    assert (np.abs(places - exact) <= 2.0**-24 * np.abs(exact)).all()


def test_far_places_are_exact_to_a_rounding() -> None:
    rows, places = 5000, trainer_of(5000, 2).state_dict()["1.pe"]
    angles = np.arange(rows) % (2 * pi)
    np.testing.assert_allclose(places[:, 1], np.cos(angles), rtol=0, atol=2.0**-24 + 1e-11)


def test_bits_are_the_same_on_every_machine() -> None:
    places = trainer_of(128, 128).state_dict()["1.pe"]
    assert crc32(places.astype("<f4").tobytes()) == 885679411


def test_training_leaves_them() -> None:
    trainer = trainer_of(3, 4)
    before = trainer.state_dict()
    x = np.ones((2, 3, 4), np.float32)
    trainer.step(x, x)
    after = trainer.state_dict()
    np.testing.assert_array_equal(after["1.pe"], before["1.pe"])
    assert (after["0.weight"] != before["0.weight"]).any()


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: nn.PositionalEncoding(7, 4), "even number, got 7; use 8"),
        (lambda: nn.PositionalEncoding(8, 2**20 + 1), "length"),
        (lambda: nn.PositionalEncoding(8, 4, base=0.5), "base"),
    ],
)
def test_arguments_are_refused(build: Any, words: str) -> None:
    with pytest.raises(at.ArgumentError, match=words):
        build()


@pytest.mark.parametrize(
    ("shape", "words"),
    [((5, 8), r"write nn.PositionalEncoding\(8, 5\)"), ((8,), "features, places")],
)
def test_other_shapes_are_refused(shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(at.ShapeError, match=words):
        nn.trace(nn.Sequential(nn.PositionalEncoding(8, 4)), shape, 2)
