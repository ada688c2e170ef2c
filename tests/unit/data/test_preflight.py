"""Pre-flight: what is refused with its row, what is told, and that memory does not grow."""

from __future__ import annotations

import tracemalloc
from math import nan
from typing import Any

import numpy as np
import pytest

from armtrain.data import Expected, open_data
from armtrain.data.preflight import Scratch, preflight
from armtrain.data.random import RandomSource
from armtrain.data.target_range import TargetRange
from armtrain.errors import DataError, NonFiniteError

BATCH = 4


def look(
    x: Any, y: Any, *, n_classes: int = 0, role: str = "training", ignored: int = -100
) -> tuple[str, ...]:
    """Return the remarks on arrays."""
    x, y = np.asarray(x), np.asarray(y)
    target_shape = () if n_classes else y.shape[1:]
    expected = Expected(x.shape[1:], n_classes, target_shape, ignored_label=ignored)
    with open_data((x, y), print, BATCH) as source:
        source.check(expected, targets=True)
        return preflight(source, expected, scratch(expected), role)


def scratch(expected: Expected) -> Scratch:
    """Return buffers for one batch."""
    return Scratch(
        np.empty(BATCH, np.uint64),
        np.empty((BATCH, *expected.input_shape), np.float32),
        np.empty((BATCH, *expected.target_shape), expected.target_dtype),
    )


def inputs(n: int) -> np.ndarray:
    """Return inputs without anything unusual."""
    return np.linspace(-1, 1, 3 * n, dtype=np.float32).reshape(n, 3)


def test_ordinary_data_get_no_remark() -> None:
    assert look(inputs(20), np.arange(20) % 2, n_classes=2) == ()
    assert look(inputs(20), inputs(20)) == ()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_with_row_and_number(value: float) -> None:
    x = inputs(20)
    x[13, 1] = x[13, 2] = x[17, 0] = value
    with pytest.raises(
        NonFiniteError, match=r"arrays:x: row 13 \(.* element 1; .*\(2 in all; nothing was trained"
    ):
        look(x, np.zeros(20, int), n_classes=1)


def test_targets_that_are_not_finite_are_refused() -> None:
    y = inputs(20)
    y[6, 2] = np.nan
    with pytest.raises(NonFiniteError, match=r"arrays:y: row 6 \(.* element 2"):
        look(inputs(20), y)


def test_a_double_beyond_float32_is_refused() -> None:
    x = inputs(5).astype(np.float64)
    x[4, 0] = 1e300
    with pytest.raises(NonFiniteError, match="row 4"):
        look(x, inputs(5))


@pytest.mark.parametrize(
    ("scale", "shift", "said"),
    [(127.5, 1.0, "0..255, which looks like pixels"), (1000.0, 0.0, "-1000..1000; networks")],
)
def test_inputs_that_nobody_scaled_are_told(scale: float, shift: float, said: str) -> None:
    x = (inputs(20) + np.float32(shift)) * np.float32(scale)
    (remark,) = look(x, np.arange(20) % 2, n_classes=2)
    assert remark.startswith("training data: inputs lie in ")
    assert said in remark


def test_uint8_pixels_are_scaled_already() -> None:
    x = np.arange(256, dtype=np.uint8).reshape(64, 4)
    assert look(x, np.arange(64) % 2, n_classes=2) == ()


def test_inputs_and_targets_that_never_change_are_told() -> None:
    x = np.tile(inputs(1), (9, 1))
    assert "all 9 samples have the same inputs" in look(x, inputs(9))[0]
    assert "all 9 samples have the same targets" in look(inputs(9), x)[0]
    x[8] += 1  # alone in the last batch
    assert look(x, x) == ()
    assert look(inputs(1), inputs(1)) == ()


def test_large_targets_are_told() -> None:
    (remark,) = look(inputs(5), inputs(5) * np.float32(1e5))
    assert "targets lie in -100000..100000" in remark


def test_classes() -> None:
    y = np.array([0] * 18 + [2, 2])
    assert look(inputs(20), y, n_classes=3) == ("training data: 1 of 3 classes have no samples: 1",)
    assert look(inputs(20), y, n_classes=3, role="validation") == ()
    one = "all samples are of class 2: a classifier needs two or more"
    assert look(inputs(5), [2] * 5, n_classes=3, role="validation") == (f"validation data: {one}",)
    assert look(inputs(24), [1] * 22 + [0, 0], n_classes=2) == (
        "training data: class 1 has 22 samples, class 0 only 2: weigh the classes in the loss, or "
        "collect more",
    )
    from_1 = look(inputs(20), np.arange(20) % 10 + 1, n_classes=11)
    assert from_1[0].endswith("no samples: 0; if labels are counted from 1, subtract 1")


def test_an_ignored_class_is_no_class() -> None:
    y = np.array([0] * 10 + [1] * 10 + [2])
    assert look(inputs(21), y, n_classes=3, ignored=2) == ()
    assert (
        "all 5 samples have the ignored label 1"
        in look(inputs(5), [1] * 5, n_classes=3, ignored=1)[0]
    )


@pytest.mark.parametrize("ignored", [-1, -100, 3, 255, -(2**31), 2**31 - 1])
def test_an_ignored_label_need_be_no_class(ignored: int) -> None:
    y = np.array([0, 1, ignored] * 7)
    assert look(inputs(21), y, n_classes=2, ignored=ignored) == ()
    (remark,) = look(inputs(5), [ignored] * 5, n_classes=2, ignored=ignored)
    assert f"all 5 samples have the ignored label {ignored}" in remark
    (remark,) = look(inputs(5), [1, ignored] * 2 + [1], n_classes=2, ignored=ignored)
    assert "all samples are of class 1" in remark
    with pytest.raises(DataError, match=r"0\.\.1, these lie in 0\.\.2; .* row 2 .*ignore_index=2 "):
        look(inputs(4), [0, ignored, 2, 1], n_classes=2, ignored=ignored)


def test_labels_of_a_source_with_a_careless_check_are_refused() -> None:
    class Careless:
        name, count, notes = "mine", 6, ()

        def read(self, rows: np.ndarray, x: np.ndarray, target: np.ndarray) -> None:
            x[:] = rows[:, None]
            target[:] = np.where(rows == 5, 7, 0)

    expected = Expected((3,), 4)
    with pytest.raises(DataError, match=r"mine:y: .*0\.\.3, row 5 .* has 7"):
        preflight(Careless(), expected, scratch(expected), "training")


def test_targets_of_a_source_with_a_careless_check_are_refused() -> None:
    class Careless:
        name, count, notes = "mine", 6, ()

        def read(self, rows: np.ndarray, x: np.ndarray, target: np.ndarray) -> None:
            x[:] = rows[:, None]
            target[:] = np.where(rows == 5, 2.5, 1)[:, None]

    expected = Expected((3,), 0, (2,), (), TargetRange(-1.0, 3.0, 2.0, nan, False, "take others"))
    with pytest.raises(
        DataError, match=r"mine:y: .*-1\.\.3 in steps of 2, row 5 .* has 2.5 at elem"
    ):
        preflight(Careless(), expected, scratch(expected), "training")


def test_trusted_data_are_not_read() -> None:
    source = RandomSource(None, 10**12, 0)
    expected = Expected((3,), 4)
    assert preflight(source, expected, scratch(expected), "training") == ()


def test_memory_does_not_grow_with_the_data() -> None:
    x, y = np.zeros((20_000, 64), np.float32), np.arange(20_000) % 2
    expected = Expected((64,), 2)
    with open_data((x, y), print, BATCH) as source:
        source.check(expected, targets=True)
        buffers = scratch(expected)
        tracemalloc.start()
        preflight(source, expected, buffers, "training")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 100_000
