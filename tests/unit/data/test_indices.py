"""Inputs that are indices: what is refused and how, what is converted, what is not remarked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtrain.data import Expected, open_data
from armtrain.data.preflight import Scratch, preflight
from armtrain.errors import DataError

N = 12


def expected(*limits: int) -> Expected:
    """Return what a regression from inputs with these index ranges wants."""
    return Expected((len(limits),), 0, (1,), limits)


def look(x: np.ndarray, *limits: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the samples as the network gets them, and the remarks."""
    wanted, y = expected(*limits), np.linspace(-1, 1, len(x), dtype=np.float32)[:, None]
    rows = np.arange(len(x), dtype=np.uint64)
    out, target = np.empty(x.shape, np.float32), np.empty(y.shape, np.float32)
    with open_data((x, y), print, len(x)) as source:
        source.check(wanted, targets=True)
        source.read(rows, out, target)
        read = out.copy()
        return read, preflight(source, wanted, Scratch(rows, out, target), "training")


def ids(rows: int = 200) -> np.ndarray:
    """Return two columns of row numbers, 0 and the last among them."""
    x = np.random.default_rng(0).integers(0, rows, (N, 2))
    x[0] = 0, rows - 1
    return x


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.int64, np.float64])
def test_integers_of_all_widths_are_taken_as_they_are_without_remarks(dtype: Any) -> None:
    values, remarks = look(ids().astype(dtype), 200, 200)
    assert np.array_equal(values, ids())
    assert remarks == ()


def test_numbers_beside_indices_are_still_looked_at() -> None:
    x = np.concatenate([ids(), np.full((N, 1), 77.0)], axis=1)
    assert "inputs lie in 77..77" in look(x, 200, 200, 0)[1][0]


def test_bytes_that_are_partly_numbers_have_no_scale() -> None:
    with pytest.raises(DataError, match="some are indices and some numbers"):
        look(ids().astype(np.uint8), 200, 0)


@pytest.mark.parametrize(
    ("place", "value", "text"),
    [
        ((7, 1), 200, "row 7 (counted from 0) has 200 at element 1, .* rows are 0..199; map them"),
        ((7, 0), 250, "plan with num_embeddings=251"),
        ((3, 0), -1, "row 3 .* has -1 at element 0, .*; indices are whole numbers from 0"),
        ((3, 0), 2.5, "row 3 .* has 2.5 at element 0"),
    ],
)
def test_what_no_row_has_is_refused_with_its_place(
    place: tuple[int, int], value: float, text: str
) -> None:
    x = ids().astype(np.float64)
    x[place] = x[N - 1, place[1]] = value
    pattern = text.replace("(counted from 0)", r"\(counted from 0\)")
    with pytest.raises(DataError, match=pattern + r".*\(2 in all\)"):
        look(x, 200, 200)


def test_indices_from_one_are_recognised() -> None:
    with pytest.raises(DataError, match="indices look 1-based: subtract 1"):
        look(np.arange(1, N + 1)[:, None], N)
