"""Conversion rules, shape checks and label checks, each refusal with its numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from armtrain.data import Expected, open_data
from armtrain.data.source import fits
from armtrain.errors import DataError, ShapeError

LABELS = Expected((1, 2, 2), n_classes=10)
VALUES = Expected((4,), n_classes=0, target_shape=(3,))


def no_sampler(seed: int, index: int, x: np.ndarray, target: np.ndarray) -> None:
    raise AssertionError("not called")


def read(data, expected: Expected) -> tuple[np.ndarray, np.ndarray]:
    """Return all samples converted."""
    with open_data(data, no_sampler, 4) as source:
        source.check(expected, targets=True)
        n = source.count
        x = np.empty((n, *expected.input_shape), np.float32)
        target = np.empty((n, *expected.target_shape), expected.target_dtype)
        source.read(np.arange(n, dtype=np.uint64), x, target)
    return x, target


def labels(values: list[int], n_classes: int) -> None:
    """Check labels against a number of classes."""
    x = np.zeros((len(values), 1), np.float32)
    with open_data((x, np.array(values)), no_sampler, 4) as source:
        source.check(Expected((1,), n_classes), targets=True)


def test_uint8_is_divided_by_255_in_float32() -> None:
    x = np.arange(256, dtype=np.uint8).reshape(64, 4)
    got, _ = read((x, np.zeros(64, int)), LABELS)
    want = x.astype(np.float32) / np.float32(255)
    assert got.reshape(64, 4).tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", ">f8"])
def test_floats_are_rounded_to_float32(dtype: str) -> None:
    x = (np.arange(8).reshape(2, 4) / 7).astype(dtype)
    got, _ = read((x, np.zeros(2, int)), LABELS)
    assert got.reshape(2, 4).tobytes() == x.astype(np.float32).tobytes()


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "?"])
def test_other_integers_are_refused_with_a_hint(dtype: str) -> None:
    with pytest.raises(DataError, match="scale the values yourself"):
        read((np.zeros((2, 4), dtype), np.zeros(2, int)), LABELS)


def test_text_is_refused() -> None:
    with pytest.raises(DataError, match="array of numbers"):
        read((np.full((2, 4), "a"), np.zeros(2, int)), LABELS)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "u4", "i8", "u8", ">i4", "?"])
def test_labels_of_every_integer_type(dtype: str) -> None:
    y = np.array([0, 1, 1], dtype)
    _, got = read((np.zeros((3, 4), np.float32), y), LABELS)
    assert got.dtype == np.int32
    assert got.tolist() == [0, 1, 1]


def test_label_column_of_width_one() -> None:
    _, got = read((np.zeros((2, 4), np.float32), np.array([[3], [4]])), LABELS)
    assert got.tolist() == [3, 4]


def test_one_based_labels() -> None:
    with pytest.raises(DataError, match=r"lie in 1\.\.10.*row 9 .*look 1-based: subtract 1"):
        labels(list(range(1, 11)), 10)


def test_labels_with_gaps() -> None:
    with pytest.raises(DataError, match=r"lie in 1\.\.10; the first bad one is in row 5 "):
        labels([1, 2, 3, 4, 7, 8, 9, 10], 8)


def test_negative_label() -> None:
    with pytest.raises(
        DataError,
        match=r"-1\.\.2; the first bad one is in row 3 .* ignore_index=-1 of the loss leav",
    ):
        labels([0, 1, 2, -1, -1], 3)


@pytest.mark.parametrize("bad", [[-1, -2], [-1, 3], [-(2**40), 0]])
def test_negative_labels_that_no_one_number_leaves_out(bad: list[int]) -> None:
    with pytest.raises(DataError, match=r"make all of them -1: ignore_index=-1 of the loss"):
        labels([0, 1, 2, *bad], 3)


def test_mask_values() -> None:
    with pytest.raises(
        DataError, match=r"0\.\.255.*example 255 to 1; ignore_index=255 of the loss"
    ):
        labels([0, 255, 0], 2)
    with pytest.raises(DataError, match=r"0\.\.255.*row 1 .*example 255 to 2$"):
        labels([0, 254, 255], 3)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i8", "u8", ">i4", "?"])
def test_the_ignored_label_is_taken_in_every_type(dtype: str) -> None:
    y = np.array([0, 1, 1, 0], dtype)
    ignored = 100 if dtype != "?" else 1
    y[2] = ignored
    _, got = read((np.zeros((4, 4), np.float32), y), replace(LABELS, ignored_label=ignored))
    assert got.tolist() == [0, 1, ignored, 0]


def test_a_wide_label_is_not_the_ignored_one_that_it_would_become() -> None:
    for wide in (2**32 - 1, 2**64 - 1):
        y = np.array([0, 1, wide, 0], np.uint64)
        with pytest.raises(DataError, match=rf"0\.\.{wide}; .* row 2 "):
            read((np.zeros((4, 4), np.float32), y), replace(LABELS, ignored_label=-1))


def test_too_many_classes() -> None:
    with pytest.raises(DataError, match="5 different labels"):
        labels([0, 1, 2, 3, 4], 3)


def test_bad_label_in_a_later_chunk() -> None:
    values = [0] * 70000
    values[69999] = 3
    with pytest.raises(DataError, match="row 69999 "):
        labels(values, 3)


def test_float_and_one_hot_labels() -> None:
    x = np.zeros((2, 4), np.float32)
    with pytest.raises(DataError, match="astype"):
        read((x, np.array([1.0, 2.0])), LABELS)
    with pytest.raises(DataError, match="argmax"):
        read((x, np.eye(2, 10)), LABELS)
    with pytest.raises(DataError, match="argmax"):
        read((x, np.eye(2, 10, dtype=int)), LABELS)


def test_float_targets() -> None:
    y = np.arange(6).reshape(2, 3) / 3
    _, got = read((np.zeros((2, 4), np.float32), y), VALUES)
    assert got.tobytes() == y.astype(np.float32).tobytes()
    with pytest.raises(DataError, match=r"y\.astype"):
        read((np.zeros((2, 4), np.float32), np.zeros((2, 3), int)), VALUES)
    with pytest.raises(ShapeError, match=r"\(2,\), the plan wants \(3,\); .* output has their"):
        read((np.zeros((2, 4), np.float32), np.zeros((2, 2))), VALUES)
    with pytest.raises(ShapeError, match=r"for labels plan with .*np\.eye\(3, dtype='float32'\)"):
        read((np.zeros((2, 4), np.float32), np.zeros(2, int)), VALUES)


@pytest.mark.parametrize(
    ("have", "want", "ok"),
    [
        ((28, 28), (1, 28, 28), True),
        ((784,), (1, 28, 28), True),
        ((28, 28), (784,), True),
        ((28, 28, 3), (3, 28, 28), False),
        ((27, 28), (1, 28, 28), False),
        ((), (1,), True),
    ],
)
def test_shapes_that_fit(have: tuple[int, ...], want: tuple[int, ...], ok: bool) -> None:
    assert fits(have, want) is ok


def test_channels_last_images_are_recognised() -> None:
    with pytest.raises(ShapeError, match=r"x\.transpose\(0, 3, 1, 2\)"):
        read((np.zeros((2, 8, 8, 3), np.float32), np.zeros(2, int)), Expected((3, 8, 8), 10))


def test_wrong_shape_names_both_and_the_way_out() -> None:
    with pytest.raises(
        ShapeError,
        match=r"\(5,\), the plan wants \(1, 2, 2\).*input_shape=\(5,\) \(--input-shape 5\)",
    ):
        read((np.zeros((2, 5), np.float32), np.zeros(2, int)), LABELS)


def test_no_samples_no_targets_unequal_counts() -> None:
    with pytest.raises(DataError, match="no samples"):
        read((np.zeros((0, 4), np.float32), np.zeros(0, int)), LABELS)
    with pytest.raises(DataError, match="no targets"):
        read(np.zeros((2, 4), np.float32), LABELS)
    with pytest.raises(DataError, match=r"3 samples.*2 targets"):
        read((np.zeros((3, 4), np.float32), np.zeros(2, int)), LABELS)
    with pytest.raises(DataError, match="pair of arrays"):
        open_data((1, 2, 3), no_sampler, 4)
    with pytest.raises(DataError, match="type int"):
        open_data(3, no_sampler, 4)
