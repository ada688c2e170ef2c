"""Layers on images and sequences: output sizes and refusals beyond those of plain windows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from armtrain import nn
from armtrain.errors import ArgumentError, ShapeError
from armtrain.nn.functional import adaptive_avg_pool1d, adaptive_avg_pool2d, interpolate, prelu


class Function(nn.Module):
    """A network made from a function."""

    def __init__(
        self, function: Callable[[nn.Tensor], nn.Tensor], layer: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.function = function
        self.layer = layer

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.function(x)


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


@pytest.mark.parametrize(
    ("layer", "image", "shape"),
    [
        (nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), (3, 5, 6), (2, 4, 10, 12)),
        (nn.ConvTranspose2d(4, 6, (3, 2), (2, 1), 0, 0, 2, True, (1, 3)), (4, 5, 6), (2, 6, 11, 9)),
        (nn.ConvTranspose1d(3, 4, 4, stride=2, padding=1), (3, 7), (2, 4, 14)),
        (nn.Upsample(7), (3, 5, 6), (2, 3, 7, 7)),
        (nn.Upsample((7, 2)), (3, 5, 6), (2, 3, 7, 2)),
        (nn.Upsample(scale_factor=1.7), (3, 5, 6), (2, 3, 8, 10)),
        (nn.Upsample(scale_factor=(2, 0.5), mode="bilinear"), (3, 5, 6), (2, 3, 10, 3)),
        (nn.Upsample(scale_factor=2.0, mode="linear"), (3, 7), (2, 3, 14)),
        (nn.Upsample((3,)), (3, 7), (2, 3, 3)),
        (nn.AdaptiveAvgPool2d((4, None)), (3, 5, 6), (2, 3, 4, 6)),
        (nn.AdaptiveAvgPool1d(9), (3, 7), (2, 3, 9)),
    ],
)
def test_other_sides_have_torch_sizes(
    layer: nn.Module, image: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    assert output_shape(layer, image) == shape


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.ConvTranspose2d(3, 4, 3, groups=3), "groups=3 must divide in_channels=3 and"),
        (lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, 2), r"needs a larger stride, .* at most .1, 1"),
        (lambda: nn.ConvTranspose1d(3, 4, (3, 3)), "kernel_size needs an integer from 1"),  # type: ignore[arg-type]
        (lambda: nn.ConvTranspose2d(3, 4, 3, padding="same"), "padding needs an integer"),  # type: ignore[arg-type]
        (lambda: nn.ConvTranspose2d(3, 4, 3, padding_mode="reflect"), "use 'zeros'"),
        (lambda: nn.ConvTranspose2d(3, 4, 3, bias=1), "bias needs True or False"),  # type: ignore[arg-type]
        (lambda: nn.Upsample(), "needs size or scale_factor and not both, got size=None and"),
        (lambda: nn.Upsample(4, 2.0), "not both, got size=4 and scale_factor=2.0"),
        (lambda: nn.Upsample(0), "size needs an integer from 1 to"),
        (lambda: nn.Upsample(scale_factor=0.0), "scale_factor needs a finite number from"),
        (lambda: nn.Upsample(4, mode="bicubic"), "use one of nearest, linear, bilinear"),
        (lambda: nn.Upsample(4, align_corners=False), "leave it out, or use mode='bilinear'"),
        (lambda: nn.Upsample(4, recompute_scale_factor=True), "needs a scale_factor"),
        (lambda: nn.AdaptiveAvgPool2d((4, 4, 4)), r"output_size needs 2 sides, got .4, 4, 4."),
        (lambda: nn.AdaptiveAvgPool2d(0), "output_size needs an integer from 1"),
    ],
)
def test_arguments_of_other_sides_are_refused(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


@pytest.mark.parametrize(
    ("layer", "image", "message"),
    [
        (nn.ConvTranspose2d(3, 4, 3), (5, 4, 4), r"write nn.ConvTranspose2d\(5, 4, ...\)"),
        (nn.ConvTranspose2d(4, 4, 3, groups=2), (6, 4, 4), r"nn.ConvTranspose2d\(6, 4, ...\)"),
        (nn.ConvTranspose1d(3, 4, 3), (3, 4, 4), "needs sequences of shape"),
        (nn.ConvTranspose2d(3, 4, 3, padding=3), (3, 2, 2), "leaves nothing .* use less padding"),
        (nn.Upsample(2, mode="linear"), (3, 4, 4), "use mode='nearest' or 'bilinear'"),
        (nn.Upsample(2, mode="bilinear"), (3, 4), "use mode='nearest' or 'linear'"),
        (nn.Upsample(2), (3,), "flatten after it"),
        (nn.Upsample((2, 3)), (3, 4), r"\(2, 3\) are not the 1 sides of \(2, 3, 4\)"),
        (nn.Upsample(scale_factor=0.2), (3, 4, 4), "makes an input of shape .* 0x0; sides from 1"),
        (nn.AdaptiveAvgPool2d(2), (3, 4), "needs images .* flatten only after it"),
    ],
)
def test_other_sides_are_refused(layer: nn.Module, image: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        nn.trace(layer, image, 2)


def test_a_tied_autoencoder_needs_one_weight() -> None:
    """The weight of a transposed convolution is that of the convolution it undoes."""
    down, up = nn.Conv2d(4, 6, 3, groups=2), nn.ConvTranspose2d(6, 4, 3, groups=2)
    assert down.weight.shape == up.weight.shape
    up.weight = down.weight
    assert output_shape(nn.Sequential(down, up), (4, 5, 6)) == (2, 4, 5, 6)
    up.out_channels = 8
    with pytest.raises(ArgumentError, match=r"needs a weight of shape \(6, 4, 3, 3\)"):
        nn.trace(up, (6, 5, 5), 2)


def test_functions_of_other_sides_record_what_layers_record() -> None:
    def function(x: nn.Tensor) -> nn.Tensor:
        x = interpolate(x, scale_factor=1.5)
        x = interpolate(x, (5, 4), mode="bilinear", align_corners=True)
        return adaptive_avg_pool2d(x, (3, None))

    layers = [
        nn.Upsample(scale_factor=1.5),
        nn.Upsample((5, 4), mode="bilinear", align_corners=True),
        nn.AdaptiveAvgPool2d((3, None)),
    ]
    ours = nn.trace(Function(function), (3, 4, 6), 2)
    theirs = nn.trace(nn.Sequential(*layers), (3, 4, 6), 2)
    assert [n.attrs for n in ours.nodes] == [n.attrs for n in theirs.nodes]
    one = nn.trace(Function(lambda x: adaptive_avg_pool1d(x, 2)), (3, 7), 2)
    assert one.nodes[-1].shape == (2, 3, 2)
    with pytest.raises(ArgumentError, match="antialias=True is not available; use False"):
        nn.trace(Function(lambda x: interpolate(x, 3, antialias=True)), (3, 7), 2)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("shape", [(3, 5, 4), (3, 7), (3,)])
def test_the_function_of_slopes_records_what_the_layer_records(
    shape: tuple[int, ...], count: int
) -> None:
    layer = nn.PReLU(count)
    ours = nn.trace(Function(lambda x: prelu(x, layer.weight), layer), shape, 2)
    theirs = nn.trace(layer, shape, 2)
    assert [n.attrs for n in ours.nodes] == [n.attrs for n in theirs.nodes]


@pytest.mark.parametrize("weight", [0.25, None, nn.PReLU(2).weight, nn.Linear(1, 3).weight])
def test_slopes_are_a_parameter_that_fits(weight: object) -> None:
    net = Function(lambda x: prelu(x, weight))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"needs a nn.Parameter of shape .1,. or .3,., got"):
        nn.trace(net, (3, 5, 4), 2)
