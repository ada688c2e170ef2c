"""What counts as a truth value, and where one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from armtrain import nn, optim
from armtrain.errors import ArgumentError
from armtrain.runtime.arguments import fit_options
from armtrain.values import truth

TAKERS: dict[str, Callable[[Any], object]] = {
    "Linear: bias": lambda value: nn.Linear(4, 2, bias=value),
    "Conv2d: bias": lambda value: nn.Conv2d(3, 4, 3, bias=value),
    "BatchNorm2d: affine": lambda value: nn.BatchNorm2d(3, affine=value),
    "BatchNorm2d: track_running_stats": lambda value: nn.BatchNorm2d(3, track_running_stats=value),
    "ReLU: inplace": lambda value: nn.ReLU(inplace=value),
    "Dropout: inplace": lambda value: nn.Dropout(inplace=value),
    "MaxPool2d: ceil_mode": lambda value: nn.MaxPool2d(2, ceil_mode=value),
    "AvgPool2d: count_include_pad": lambda value: nn.AvgPool2d(2, count_include_pad=value),
    "requires_grad": lambda value: nn.Linear(4, 2).requires_grad_(value),
    "train: mode": lambda value: nn.Linear(4, 2).train(value),
    "optim.SGD: nesterov": lambda value: optim.SGD(momentum=0.9, nesterov=value),
    "optim.RMSprop: centered": lambda value: optim.RMSprop(centered=value),
    "resume": lambda value: fit_options(1, "run", None, value, None, None),
}
WRONG = ["False", "no", "", float("nan"), 0, 1, None, np.array([True, False]), "zeros"]


@pytest.mark.parametrize("name", TAKERS)
@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_arguments_that_are_true_or_false_take_nothing_else(name: str, value: object) -> None:
    with pytest.raises(ArgumentError, match=f"^{name} needs True or False, got "):
        TAKERS[name](value)


@pytest.mark.parametrize("name", TAKERS)
def test_numpy_truth_values_are_truth_values(name: str) -> None:
    TAKERS[name](np.False_)


def test_parameters_keep_no_text() -> None:
    init = nn.Linear(4, 2).weight.init
    with pytest.raises(ArgumentError, match="requires_grad needs True or False, got 'False'"):
        nn.Parameter((2, 4), init, requires_grad="False")  # type: ignore[arg-type]
    layer = nn.Linear(4, 2)
    layer.weight.requires_grad = "False"  # type: ignore[assignment]
    with pytest.raises(ArgumentError, match="weight: requires_grad needs True or False"):
        nn.trace(layer, (4,), 2)


def test_long_values_are_cut() -> None:
    with pytest.raises(ArgumentError) as caught:
        truth("bias", "x" * 100_000)
    assert len(str(caught.value)) < 120
