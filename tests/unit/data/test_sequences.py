"""Sequences of different lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtrain.data import pad_sequences
from armtrain.errors import ArgumentError, DataError

CLIPS = [np.arange(6.0).reshape(3, 2) + 1, np.full((1, 2), 9.0)]


def test_steps_are_followed_by_zeros_and_the_mask_is_the_last_feature() -> None:
    x = pad_sequences(CLIPS)
    assert (x.shape, x.dtype) == ((2, 3, 3), np.float32)
    assert x[0].tolist() == [[1, 2, 1], [3, 4, 1], [5, 6, 1]]
    assert x[1].tolist() == [[9, 9, 1], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(("length", "masks"), [(2, [2, 1]), (5, [3, 1])])
def test_a_given_length_cuts_or_fills(length: int, masks: list[int]) -> None:
    x = pad_sequences(CLIPS, length=length)
    assert x.shape == (2, length, 3)
    assert x[:, :, -1].sum(1).tolist() == masks
    assert x[0, :2, :2].tolist() == [[1, 2], [3, 4]]


def test_sequences_of_numbers_have_one_feature() -> None:
    assert pad_sequences([[0.5, 1.5], [2.5]]).tolist() == [[[0.5, 1], [1.5, 1]], [[2.5, 1], [0, 0]]]


@pytest.mark.parametrize(
    ("clips", "text"),
    [
        ([], "no sequence"),
        (None, "a list of arrays .* NoneType"),
        ([np.ones((2, 3)), np.ones((2, 4))], "sequence 1 .* 4 features, .* 3"),
        ([np.ones((2, 3)), np.ones((0, 3))], r"sequence 1 .*\(0, 3\)"),
        ([[[1.0, 2.0], [3.0]]], "sequence 0 .* same features"),
        ([np.float32(1)], r"sequence 0 .*\(\)"),
        ([np.ones((2, 3), np.int16)], "int16.*astype"),
    ],
    ids=["none", "no list", "features", "no steps", "a step", "a number", "integers"],
)
def test_refusals_name_the_sequence(clips: Any, text: str) -> None:
    with pytest.raises(DataError, match=text):
        pad_sequences(clips)


def test_a_length_of_no_steps_is_refused() -> None:
    with pytest.raises(ArgumentError, match="length"):
        pad_sequences(CLIPS, length=0)
