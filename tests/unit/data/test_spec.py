"""SPEC strings, the embedded digits and random data."""

from __future__ import annotations

import numpy as np
import pytest

from armtrain.data import Expected, open_data, parse_spec
from armtrain.data.digits import load_digits
from armtrain.data.spec import open_table
from armtrain.errors import DataError


def count_sampler(seed: int, index: int, x: np.ndarray, target: np.ndarray) -> None:
    """Write recognisable numbers."""
    x[:] = 100 * seed + index
    target[:] = index


@pytest.mark.parametrize(
    "text",
    [
        "",
        "digits:valid",
        "npz:",
        "idx:a",
        "idx:a,",
        "idx:a,b,c",
        "csv:",
        "csv:?label=a",
        "csv:f?speed=1",
        "csv:f?label=",
        "csv:f?label=a&label=b",
        "csv:f?divide=0",
        "folder:",
        "folder:d?size=0x3",
        "folder:d?channels=2",
        "manifest:",
        "random:samples=0",
        "random:foo=1",
        "random:samples=x",
        "random:samples=1,samples=2",
        "random:seed=-1",
    ],
)
def test_bad_specs_name_the_possible_ones(text: str) -> None:
    with pytest.raises(
        DataError,
        match=r"possible are|parts of digits|options of random|is no option|needs|names no file",
    ):
        parse_spec(text)


def test_digits_is_the_training_part() -> None:
    assert parse_spec("digits") == parse_spec("digits:train")


def test_split_is_stratified_disjoint_and_complete() -> None:
    parts = {part: load_digits(part) for part in ("train", "test", "all")}
    sizes = {part: len(y) for part, (_, y) in parts.items()}
    assert sizes == {"train": 1438, "test": 359, "all": 1797}
    rows = {part: {x.tobytes() for x in xs} for part, (xs, _) in parts.items()}
    assert rows["train"] | rows["test"] == rows["all"]
    every = np.bincount(parts["all"][1])
    share = np.bincount(parts["test"][1]) / every
    assert np.all(abs(share - 0.2) < 0.01)
    x, y = parts["all"]
    assert (x.dtype, x.shape[1:], y.dtype) == (np.float32, (1, 8, 8), np.int32)
    assert x.min() == 0
    assert x.max() == 1


def test_digits_are_those_of_scikit_learn() -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    want = datasets.load_digits()
    x, y = load_digits("all")
    assert np.array_equal(x.reshape(-1, 64) * 16, want.data)
    assert np.array_equal(y, want.target)


def test_random_means_four_batches() -> None:
    with open_data("random:", count_sampler, 16) as source:
        assert source.count == 64
    with open_data("random:samples=48,seed=3", count_sampler, 16) as source:
        assert source.count == 48
        source.check(Expected((2,), 10), targets=True)
        x, y = np.empty((3, 2), np.float32), np.empty(3, np.int32)
        source.read(np.array([5, 0, 7], np.uint64), x, y)
    assert x.tolist() == [[305, 305], [300, 300], [307, 307]]
    assert y.tolist() == [5, 0, 7]


def test_random_without_targets() -> None:
    with open_data("random:samples=2", count_sampler, 16) as source:
        source.check(Expected((2,), 0, (3,)), targets=False)
        x = np.empty((2, 2), np.float32)
        source.read(np.arange(2, dtype=np.uint64), x, None)
    assert x.tolist() == [[0, 0], [1, 1]]


def test_random_cannot_be_opened_without_a_plan() -> None:
    with pytest.raises(DataError, match="only under a plan"):
        open_table(parse_spec("random:"))
