"""Arguments of layers that are set later: the constructor's rules hold for them too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from armtrain import nn
from armtrain.errors import ArgumentError

SETTINGS: list[tuple[Callable[[], Any], str, object, str]] = [
    (lambda: nn.Dropout(0.5), "p", float("nan"), "Dropout: p needs a finite number .* got nan"),
    (lambda: nn.Dropout(0.5), "p", -1.0, "Dropout: p needs a finite number from 0 to 1, got -1"),
    (lambda: nn.Dropout(0.5), "p", 1.0, "p=1 drops everything; use a number below 1"),
    (lambda: nn.Dropout(0.5), "p", True, "p needs a finite number"),
    (lambda: nn.Dropout(0.5), "inplace", "no", "inplace needs True or False, got 'no'"),
    (lambda: nn.BatchNorm2d(3), "eps", -1, "BatchNorm2d: eps needs a finite number"),
    (lambda: nn.BatchNorm2d(3), "eps", None, "eps needs a finite number"),
    (lambda: nn.BatchNorm2d(3), "momentum", 5, "momentum needs a finite number from 0 to 1"),
    (lambda: nn.BatchNorm2d(3), "momentum", None, "cumulative mean"),
    (lambda: nn.Conv2d(3, 4, 3), "stride", (0, 0), "Conv2d: stride needs an integer from 1"),
    (lambda: nn.Conv2d(3, 4, 3), "padding", (-1, -1), "Conv2d: padding needs an integer from 0"),
    (lambda: nn.Conv2d(3, 4, 3), "dilation", (0, 0), "Conv2d: dilation needs an integer from 1"),
    (lambda: nn.Conv2d(3, 4, 3), "groups", "x", "Conv2d: groups needs an integer from 1"),
    (lambda: nn.MaxPool2d(2), "kernel_size", (0, 0), "MaxPool2d: kernel_size needs an integer"),
    (lambda: nn.MaxPool2d(2), "ceil_mode", 1, "MaxPool2d: ceil_mode needs True or False"),
    (lambda: nn.AvgPool2d(2), "stride", (0, 0), "AvgPool2d: stride needs an integer from 1"),
    (lambda: nn.AvgPool2d(2), "divisor_override", 0, "divisor_override needs an integer from 1"),
    (lambda: nn.Linear(4, 2), "out_features", 0, "Linear: out_features needs an integer"),
    (lambda: nn.Flatten(), "start_dim", "1", "Flatten: start_dim needs an integer"),
    (lambda: nn.CrossEntropyLoss(), "label_smoothing", 0.1, r"CrossEntropyLoss\(label_smoothing"),
]


@pytest.mark.parametrize(("make", "name", "value", "message"), SETTINGS)
def test_setting_refuses_what_the_constructor_refuses(
    make: Callable[[], Any], name: str, value: object, message: str
) -> None:
    layer = make()
    with pytest.raises(ArgumentError, match=message):
        setattr(layer, name, value)


@pytest.mark.parametrize(
    ("changed", "name", "value", "made"),
    [
        (nn.Conv2d(3, 4, 3), "stride", 2, nn.Conv2d(3, 4, 3, stride=2)),
        (nn.Conv2d(3, 4, 3), "padding", 1, nn.Conv2d(3, 4, 3, padding=1)),
        (nn.Conv2d(3, 4, 3), "padding", "same", nn.Conv2d(3, 4, 3, padding="same")),
        (nn.MaxPool2d(2), "kernel_size", 3, nn.MaxPool2d(3, 2)),
        (nn.AvgPool2d(2), "stride", np.int64(1), nn.AvgPool2d(2, 1)),
    ],
)
def test_setting_takes_what_the_constructor_takes(
    changed: nn.Module, name: str, value: object, made: nn.Module
) -> None:
    setattr(changed, name, value)
    assert repr(changed) == repr(made)
    assert nn.trace(changed, (3, 8, 8), 2) == nn.trace(made, (3, 8, 8), 2)


@pytest.mark.parametrize(
    ("layer", "name", "value", "message"),
    [
        (nn.MaxPool2d(2), "padding", 5, r"more than half .* use at most \(1, 1\)"),
        (nn.MaxPool2d(2), "kernel_size", 16, "pool twice"),
        (nn.AvgPool2d(2), "padding", 5, "more than half"),
        (nn.Conv2d(3, 4, 3), "groups", 2, "groups=2 must divide in_channels=3"),
        (nn.Conv2d(3, 4, 3), "kernel_size", 5, r"weight of shape \(4, 3, 5, 5\), it has \(4, 3, 3"),
        (nn.Conv2d(3, 4, 3), "out_channels", 9, r"shape \(9, 3, 3, 3\), .* make a new layer"),
        (nn.Linear(4, 2), "out_features", 7, r"needs a weight of shape \(7, 4\), it has \(2, 4\)"),
        (nn.BatchNorm2d(3), "num_features", 4, r"needs weight of shape \(4,\), it has \(3,\)"),
    ],
)
def test_arguments_that_no_longer_go_together_are_refused(
    layer: nn.Module, name: str, value: object, message: str
) -> None:
    setattr(layer, name, value)
    shape = (4,) if isinstance(layer, nn.Linear) else (3, 8, 8)
    with pytest.raises(ArgumentError, match=message):
        nn.trace(layer, shape, 2)


def test_a_layer_with_new_arguments_and_a_new_weight() -> None:
    layer = nn.Linear(4, 2, bias=False)
    layer.out_features = 3
    layer.weight = nn.Parameter((3, 4), layer.weight.init)
    assert nn.trace(layer, (4,), 2).nodes[-1].shape == (2, 3)
