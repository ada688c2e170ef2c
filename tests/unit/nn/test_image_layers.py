"""Layers on images and sequences: output sizes and refusals beyond those of plain windows."""

from __future__ import annotations

import pytest

from armtrain import nn
from armtrain.errors import ArgumentError, ShapeError


def output_shape(layer: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the output's shape of two samples."""
    return nn.trace(layer, shape, 2).nodes[-1].shape


@pytest.mark.parametrize(
    ("layer", "image", "shape"),
    [
        (nn.Conv2d(3, 4, (2, 4), padding="same", dilation=(3, 1)), (3, 6, 7), (2, 4, 6, 7)),
        (nn.Conv2d(3, 4, 3, padding="valid", stride=2), (3, 6, 7), (2, 4, 2, 3)),
        (nn.Conv1d(3, 4, 4, padding="same"), (3, 7), (2, 4, 7)),
        (nn.MaxPool2d(2, ceil_mode=True), (3, 5, 6), (2, 3, 3, 3)),
        (nn.MaxPool2d(2, 3, ceil_mode=True), (3, 6, 7), (2, 3, 2, 3)),
        (nn.MaxPool2d(3, ceil_mode=True), (3, 2, 2), (2, 3, 1, 1)),
        (nn.MaxPool2d(3, 2, 1, ceil_mode=True), (3, 6, 7), (2, 3, 4, 4)),
        (nn.MaxPool1d(3, ceil_mode=True), (3, 7), (2, 3, 3)),
        # a window that starts in the padding behind the image is dropped
        (nn.AvgPool2d(3, (3, 4), 1, ceil_mode=True), (3, 6, 7), (2, 3, 3, 2)),
        (nn.AvgPool2d(2, 2, 1, ceil_mode=True), (3, 5, 6), (2, 3, 3, 4)),
    ],
)
def test_uneven_ends_have_torch_sizes(
    layer: nn.Module, image: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    assert output_shape(layer, image) == shape


def test_words_for_padding_stay_words() -> None:
    conv = nn.Conv2d(3, 4, 3, padding="same")
    assert conv.padding == "same"
    assert "padding='same'" in repr(conv)
    conv.stride = 2
    with pytest.raises(ArgumentError, match=r"needs stride 1, got stride .2, 2."):
        nn.trace(conv, (3, 8, 8), 2)
    with pytest.raises(ArgumentError, match="Conv2d: padding needs an integer"):
        nn.Conv2d(3, 4, 3, padding="full")


def test_a_window_beyond_the_end_is_not_larger_than_a_step() -> None:
    with pytest.raises(ShapeError, match="the window reaches over 5x5 pixels"):
        nn.trace(nn.MaxPool2d(5, 2, ceil_mode=True), (3, 2, 2), 2)


def test_slopes_are_one_or_one_for_each_channel() -> None:
    assert output_shape(nn.PReLU(), (3, 5, 4)) == output_shape(nn.PReLU(3), (3, 5, 4))
    assert nn.PReLU(3).weight.shape == (3,)
    with pytest.raises(ShapeError, match=r"PReLU\(2\) needs 2 channels.*write nn.PReLU\(3\)"):
        nn.trace(nn.PReLU(2), (3, 5, 4), 2)
