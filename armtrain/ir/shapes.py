"""Shape inference: the shape of a node's value, or a refusal that says what would fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from armtrain.errors import ShapeError
from armtrain.ir.graph import (
    Attrs,
    AvgPool2dAttrs,
    BatchNorm2dAttrs,
    Conv2dAttrs,
    ConvTranspose2dAttrs,
    LayerNormAttrs,
    MaxPool2dAttrs,
    NodeKind,
    Pair,
    Resample2dAttrs,
    SoftmaxAttrs,
)
from armtrain.ir.tensor_shapes import TENSOR_RULES
from armtrain.limits import MAX_DIM, MAX_ROWS, MAX_SIDE

__all__ = ["as_images", "infer_shape", "pool_over", "window_output"]

Shape = tuple[int, ...]
Params = Mapping[str, Shape]


def window_output(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Return the output places of a sliding window along one axis (may be < 1)."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _window_over(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Return how far a last window that starts inside reaches beyond the padding, 0 for none."""
    left = (size + 2 * padding - dilation * (kernel - 1) - 1) % stride
    start = window_output(size, kernel, stride, padding, dilation) * stride - padding
    return stride - left if left and start < size else 0


_NEEDED = {
    1: (
        "sequences of shape (N, C, L)",
        "give input_shape=(channels, length) and flatten only after it",
    ),
    2: (
        "images of shape (N, C, H, W)",
        "give input_shape=(channels, height, width) and flatten only after it",
    ),
}
"""Sides -> what a layer works on."""


def as_images(shape: Shape) -> Shape:
    """Return (N, C, H, W), or that of sequences (N, C, L) as (N, C, 1, L)."""
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])


def _image(what: str, shape: Shape, sides: int) -> Shape:
    """Return `shape` as (N, C, H, W) if it has the layer's sides."""
    if len(shape) != 2 + sides:
        needed, advice = _NEEDED[sides]
        raise ShapeError(f"{what} needs {needed}, its input has shape {shape}; {advice}")
    return as_images(shape)


def _sized(shape: Shape, channels: int, out: Pair, sides: int) -> Shape:
    """Return the shape of a value with other channels and sides."""
    return (shape[0], channels, *out[2 - sides :])


def _check_image(what: str, shape: Shape) -> None:
    """Refuse images with more pixels than kernels count."""
    if len(shape) < 3:
        return
    rows, places = shape[0] * prod(shape[2:]), max(shape[2:])
    if rows > MAX_ROWS or places > MAX_SIDE:
        raise ShapeError(
            f"{what}: a value of shape {shape} has {rows:,d} pixels in all images and sides up to "
            f"{places:,d}; at most {MAX_ROWS:,d} pixels and sides of {MAX_SIDE:,d} are possible; "
            "use a smaller batch or smaller images"
        )


def _sliding(
    what: str,
    shape: Shape,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    over: Pair = (0, 0),
) -> Pair:
    """Return the output (H, W) of a window over an image."""
    sizes = (size + more for size, more in zip(shape[2:], over, strict=True))
    axes = zip(sizes, kernel, stride, padding, dilation, strict=True)
    out = [window_output(*axis) for axis in axes]
    if min(out) < 1:
        reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
        padded = tuple(s + 2 * p for s, p in zip(shape[2:], padding, strict=True))
        raise ShapeError(
            f"{what}: the window reaches over {reach[0]}x{reach[1]} pixels, its input of shape "
            f"{shape} has {padded[0]}x{padded[1]} with padding; use a larger input_shape, more "
            "padding, or a smaller kernel"
        )
    return out[0], out[1]


def _linear(what: str, inputs: tuple[Shape, ...], attrs: Any, params: Params) -> Shape:
    """(N, ..., I) to (N, ..., O)."""
    (shape,), weight = inputs, params["weight"]
    if len(shape) < 2:
        raise ShapeError(f"{what} needs an input of shape (N, ..., {weight[1]}), got {shape}")
    if shape[-1] != weight[1]:
        flat = prod(shape[1:])
        way = f"write nn.Linear({shape[-1]}, {weight[0]})"
        if flat == weight[1]:
            way = "put nn.Flatten() before it"
        elif len(shape) == 4:
            way = f"put nn.Flatten() before it and write nn.Linear({flat}, {weight[0]})"
        raise ShapeError(f"{what} expects {weight[1]} features, its input has shape {shape}; {way}")
    return *shape[:-1], weight[0]


def _conv2d(what: str, inputs: tuple[Shape, ...], attrs: Conv2dAttrs, params: Params) -> Shape:
    """(N, C, H, W) to (N, O, P, Q)."""
    shape, weight = _image(what, inputs[0], attrs.sides), params["weight"]
    channels = weight[1] * attrs.groups
    if shape[1] != channels:
        raise ShapeError(
            f"{what} expects {channels} channels, its input has shape {inputs[0]}; "
            f"write nn.Conv{attrs.sides}d({shape[1]}, {weight[0]}, ...)"
        )
    kernel = (1, weight[2]) if attrs.sides == 1 else (weight[2], weight[3])
    out = _sliding(what, shape, kernel, attrs.stride, attrs.padding, attrs.dilation, attrs.over)
    return _sized(shape, weight[0], out, attrs.sides)


def _conv_transpose2d(
    what: str, inputs: tuple[Shape, ...], attrs: ConvTranspose2dAttrs, params: Params
) -> Shape:
    """(N, C, P, Q) to (N, O, H, W): what a convolution makes (P, Q) of."""
    shape, weight = _image(what, inputs[0], attrs.sides), params["weight"]
    if shape[1] != weight[0]:
        raise ShapeError(
            f"{what} expects {weight[0]} channels, its input has shape {inputs[0]}; "
            f"write nn.ConvTranspose{attrs.sides}d({shape[1]}, {weight[1] * attrs.groups}, ...)"
        )
    kernel = (1, weight[2]) if attrs.sides == 1 else (weight[2], weight[3])
    axes = zip(
        *(shape[2:], kernel, attrs.stride, attrs.padding, attrs.dilation, attrs.output_padding),
        strict=True,
    )
    height, width = (
        (size - 1) * stride - 2 * padding + dilation * (k - 1) + more + 1
        for size, k, stride, padding, dilation, more in axes
    )
    if min(height, width) < 1:
        raise ShapeError(
            f"{what}: padding {attrs.padding} leaves nothing of an input of shape {inputs[0]}; use "
            "less padding or a larger kernel"
        )
    return _sized(shape, weight[1] * attrs.groups, (height, width), attrs.sides)


def _resample2d(
    what: str, inputs: tuple[Shape, ...], attrs: Resample2dAttrs, params: Params
) -> Shape:
    """Return the shape with other sides."""
    shape = _image(what, inputs[0], attrs.sides)
    return _sized(shape, shape[1], attrs.size, attrs.sides)


def pool_over(shape: Shape, attrs: MaxPool2dAttrs | AvgPool2dAttrs) -> Pair:
    """Return what the last windows reach beyond the padding of images (N, C, H, W)."""
    if not attrs.ceil:
        return 0, 0
    dilation = attrs.dilation if isinstance(attrs, MaxPool2dAttrs) else (1, 1)
    axes = zip(shape[-2:], attrs.kernel, attrs.stride, attrs.padding, dilation, strict=True)
    height, width = (_window_over(*axis) for axis in axes)
    return height, width


def _maxpool(what: str, inputs: tuple[Shape, ...], attrs: MaxPool2dAttrs, params: Params) -> Shape:
    """Window maximum."""
    shape = _image(what, inputs[0], attrs.sides)
    over = pool_over(shape, attrs)
    out = _sliding(what, shape, attrs.kernel, attrs.stride, attrs.padding, attrs.dilation, over)
    axes = zip(shape[2:], attrs.stride, attrs.padding, attrs.dilation, strict=True)
    if any(_misses_image(*axis) for axis in axes):
        raise ShapeError(
            f"{what}: a window of {attrs.kernel} with padding {attrs.padding} and dilation "
            f"{attrs.dilation} steps over the whole input of shape {inputs[0]}, so its maximum "
            "would be minus infinity; use a smaller dilation or padding=0"
        )
    return _sized(shape, shape[1], out, attrs.sides)


def _misses_image(size: int, stride: int, padding: int, dilation: int) -> bool:
    """Tell whether a window that starts in the padding has no place inside `size` pixels.

    Padding is at most half a kernel, so that the places reach `start % dilation`, the first one
    that is not before the image; a window that starts inside has a place there.
    """
    return any(start % dilation >= size for start in range(-padding, 0, stride))


def _avgpool(what: str, inputs: tuple[Shape, ...], attrs: AvgPool2dAttrs, params: Params) -> Shape:
    """Window mean."""
    shape = _image(what, inputs[0], attrs.sides)
    over = pool_over(shape, attrs)
    out = _sliding(what, shape, attrs.kernel, attrs.stride, attrs.padding, (1, 1), over)
    return _sized(shape, shape[1], out, attrs.sides)


def _batchnorm(
    what: str, inputs: tuple[Shape, ...], attrs: BatchNorm2dAttrs, params: Params
) -> Shape:
    """Return the same shape."""
    shape = inputs[0]
    if attrs.sides == 2 or len(shape) != 2:
        _image(what, shape, attrs.sides)
    for slot, dims in params.items():
        if dims != (shape[1],):
            raise ShapeError(
                f"{what}: {slot} has {dims[0]} channels, the input has shape {shape}; "
                f"write nn.BatchNorm{attrs.sides}d({shape[1]})"
            )
    if attrs.training and shape[0] * prod(shape[2:]) == 1:
        raise ShapeError(
            f"{what} cannot train on one value per channel (input shape {shape}): the variance "
            "of one value is undefined; use batch_size >= 2 or call .eval() on the layer"
        )
    return shape


def _layernorm(
    what: str, inputs: tuple[Shape, ...], attrs: LayerNormAttrs, params: Params
) -> Shape:
    """Return the same shape, which ends with what is normalised."""
    (shape,), over = inputs, attrs.over
    if len(shape) <= len(over) or shape[-len(over) :] != over:
        raise ShapeError(
            f"{what} normalises the last dimensions {over}, its input has shape {shape}; "
            f"write normalized_shape={shape[-len(over) :] if len(shape) > len(over) else shape[1:]}"
        )
    _check_members(what, over, params)
    return shape


def _check_members(what: str, needed: Shape, params: Params) -> None:
    """Refuse weight and bias of another shape."""
    for slot, dims in params.items():
        if dims != needed:
            raise ShapeError(f"{what}: {slot} has shape {dims}, its input needs {needed}")


def _same(what: str, inputs: tuple[Shape, ...], attrs: Any, params: Params) -> Shape:
    """Element-wise."""
    return inputs[0]


def _softmax(what: str, inputs: tuple[Shape, ...], attrs: SoftmaxAttrs, params: Params) -> Shape:
    """One of the dimensions behind the batch."""
    shape = inputs[0]
    if not 1 <= attrs.dim < len(shape):
        raise ShapeError(
            f"{what}: dim={attrs.dim} of a value of shape {shape} is not available; use 1 to "
            f"{len(shape) - 1}, or -1 for the last: samples of a batch stay apart"
        )
    return shape


def _flatten(what: str, inputs: tuple[Shape, ...], attrs: Any, params: Params) -> Shape:
    """(N, ...) to (N, product)."""
    shape = inputs[0]
    return shape[0], prod(shape[1:])


def _add(what: str, inputs: tuple[Shape, ...], attrs: Any, params: Params) -> Shape:
    """Both operands have one shape."""
    a, b = inputs
    if a != b:
        raise ShapeError(
            f"{what}: cannot add values of shape {a} and {b}; both need the same shape "
            "(a 1x1 convolution with the right stride and channels makes a branch fit)"
        )
    return a


_RULES: dict[NodeKind, Callable[[str, tuple[Shape, ...], Any, Params], Shape]] = {
    NodeKind.LINEAR: _linear,
    NodeKind.CONV2D: _conv2d,
    NodeKind.CONV_TRANSPOSE2D: _conv_transpose2d,
    NodeKind.RESAMPLE2D: _resample2d,
    NodeKind.MAXPOOL2D: _maxpool,
    NodeKind.AVGPOOL2D: _avgpool,
    NodeKind.BATCHNORM2D: _batchnorm,
    NodeKind.LAYERNORM: _layernorm,
    NodeKind.RELU: _same,
    NodeKind.TANH: _same,
    NodeKind.ACTIVATION: _same,
    NodeKind.SOFTMAX: _softmax,
    NodeKind.DROPOUT: _same,
    NodeKind.FLATTEN: _flatten,
    NodeKind.ADD: _add,
    NodeKind.TO_NCHW: _same,
    NodeKind.TO_NHWC: _same,
    **TENSOR_RULES,
}


def infer_shape(name: str, attrs: Attrs, inputs: tuple[Shape, ...], params: Params) -> Shape:
    """Return the shape of a node's value.

    Parameters
    ----------
    name : str
        Layer, for messages.
    attrs : Attrs
    inputs : tuple of shapes
        Shapes of the inputs, batch first, NCHW.
    params : mapping of str to shape
        Shapes of parameters and buffers by slot.

    Raises
    ------
    ShapeError
        The input does not fit the layer, or a dimension cannot be stored.
    """
    what = f"layer '{name}' ({attrs.kind.value})"
    shape = _RULES[attrs.kind](what, inputs, attrs, params)
    for dims in (shape, *params.values()):
        if max(dims, default=1) > MAX_DIM:
            raise ShapeError(
                f"{what}: a dimension of {dims} is larger than {MAX_DIM}; use fewer features or "
                "a smaller batch"
            )
    for dims in (*inputs, shape):
        _check_image(what, dims)
    return shape
