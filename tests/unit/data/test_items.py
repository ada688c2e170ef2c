"""Samples made by code: indexed objects, generators, functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from armtrain.data import Expected, open_data
from armtrain.errors import DataError, ShapeError

EXPECTED = Expected((2,), n_classes=3)


class Items:
    """Counts how often it is asked."""

    def __init__(self, count: int = 5) -> None:
        self.count = count
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        self.asked.append(i)
        return np.array([i, i + 0.5], np.float32), i % 3


def generate(count: int = 5) -> Iterator[tuple[list[float], int]]:
    """Yield the same samples."""
    for i in range(count):
        yield [i, i + 0.5], i % 3


def read(data: Any, rows: list[int], expected: Expected = EXPECTED):
    """Return some samples."""
    with open_data(data, lambda *_: None, 4) as source:
        source.check(expected, targets=True)
        x = np.empty((len(rows), *expected.input_shape), np.float32)
        y = np.empty((len(rows), *expected.target_shape), expected.target_dtype)
        source.read(np.array(rows, np.uint64), x, y)
    return x.tolist(), y.tolist()


@pytest.mark.parametrize(
    "make", [Items, generate, lambda: generate, lambda: iter(list(generate()))]
)
def test_any_sample_at_any_time(make: Any) -> None:
    assert read(make(), [4, 0, 2]) == ([[4, 4.5], [0, 0.5], [2, 2.5]], [1, 0, 2])


def test_each_sample_of_a_batch_is_asked_for_once() -> None:
    items = Items()
    with open_data(items, lambda *_: None, 4) as source:
        source.check(EXPECTED, targets=True)
        items.asked.clear()
        buffers = np.empty((2, 2), np.float32), np.empty(2, np.int32)
        source.read(np.array([3, 1], np.uint64), *buffers)
    assert items.asked == [3, 1]


def test_a_function_may_return_arrays_or_a_spec() -> None:
    arrays = (np.ones((2, 2), np.float32), np.array([0, 1]))
    assert read(lambda: arrays, [1]) == ([[1, 1]], [1])
    digits = Expected((1, 8, 8), 10)
    with open_data(lambda: "digits", lambda *_: None, 4) as source:
        source.check(digits, targets=True)


def test_float_targets_and_inputs_alone() -> None:
    data = (([1.0, 2.0], [3.0]) for _ in range(2))
    assert read(data, [1], Expected((2,), 0, (1,))) == ([[1, 2]], [[3]])
    with open_data((np.ones(2) for _ in range(3)), lambda *_: None, 4) as source:
        source.check(EXPECTED, targets=False)
        assert source.count == 3


def test_generators_may_reuse_their_array() -> None:
    def reuse() -> Iterator[tuple[Any, int]]:
        x = np.zeros(2, np.float32)
        for i in range(4):
            x += i
            yield x, 0

    assert read(reuse(), [0, 1, 2, 3])[0] == [[0, 0], [1, 1], [3, 3], [6, 6]]


def with_bad(bad: Any) -> Iterator[Any]:
    """Yield a good sample and another."""
    yield [1.0, 2.0], 1
    yield bad


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (([1.0, 2.0, 3.0], 1), r"sample 1: x has shape \(3,\)"),
        (([1.0, 2.0], 1.5), "sample 1: y has shape .* float64, the first sample .* int"),
        ([1.0, 2.0], "some samples have a y and some have none"),
        (([1.0, 2.0], 1, 2), "sample 1 is a tuple of 3"),
        ((["a", "b"], 1), "sample 1: x holds <U1 values"),
        (([[1.0], [2.0, 3.0]], 1), "sample 1: x is no array of one shape"),
    ],
)
def test_samples_must_be_alike(bad: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        open_data(with_bad(bad), lambda *_: None, 4)


def test_items_must_be_alike_when_they_are_read() -> None:
    class Odd(Items):
        def __getitem__(self, i: int) -> tuple[Any, Any]:
            return np.zeros(2 if i < 4 else 3, np.float32), 0

    with pytest.raises(DataError, match=r"sample 4: x has shape \(3,\)"):
        read(Odd(), [0, 4])


def test_labels_of_items_are_checked_before_training() -> None:
    with pytest.raises(DataError, match="first bad one is in row 2"):
        read(Items(), [0], Expected((2,), 2))


@pytest.mark.parametrize("data", [Items(0), iter([])])
def test_no_samples(data: Any) -> None:
    with pytest.raises(DataError, match="no samples"):
        open_data(data, lambda *_: None, 4)


@pytest.mark.parametrize("data", [{"x": 1}, {1, 2}, b"digits", 3, None, lambda: 3])
def test_what_is_no_data(data: Any) -> None:
    with pytest.raises(DataError, match="are unknown; give arrays"):
        open_data(data, lambda *_: None, 4)


def test_batches_are_no_samples() -> None:
    batches = ((np.zeros((8, 2), np.float32), np.zeros(8, np.int64)) for _ in range(3))
    with pytest.raises((DataError, ShapeError), match="shape"):
        read(batches, [0])


def test_errors_of_the_users_code_say_where() -> None:
    def broken() -> Iterator[Any]:
        yield from generate(2)
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine") as raised:
        open_data(broken(), lambda *_: None, 4)
    assert raised.value.__notes__ == ["while sample 2 of the generator was made"]
