"""Convolution over sequences and images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any, ClassVar

from armtrain.errors import ArgumentError
from armtrain.ir.graph import Conv2dAttrs
from armtrain.limits import MAX_WINDOW
from armtrain.nn.arguments import (
    Rule,
    as_pair,
    pair,
    positive,
    refuse_unless,
    refuse_unlike,
    single,
)
from armtrain.nn.module import Module
from armtrain.nn.parameter import Parameter, uniform_fan_in
from armtrain.nn.tensor import Tensor
from armtrain.values import truth

__all__ = ["Conv1d", "Conv2d", "GroupedKernels", "conv_rules"]


def conv_rules(sizes: Callable[..., object]) -> dict[str, Rule]:
    """Return the rules of the arguments; `sizes` makes one number for each side."""
    return {
        "in_channels": positive,
        "out_channels": positive,
        "kernel_size": partial(sizes, least=1),
        "stride": partial(sizes, least=1),
        "dilation": partial(sizes, least=1),
        "groups": partial(positive, most=MAX_WINDOW),
        "padding_mode": partial(refuse_unless, only="zeros"),
    }


class GroupedKernels(Module):
    """What convolutions have in common, transposed or not: kernels between channels in groups."""

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    groups: int
    _transposed: ClassVar[bool] = False

    def _make_parameters(self, bias: object) -> None:
        """Make the weight and, if it is wanted, the bias."""
        shape = self._weight_shape()
        init = uniform_fan_in(prod(shape[1:]))
        has_bias = truth(f"{type(self).__name__}: bias", bias)
        self.weight = Parameter(shape, init)
        self.bias = Parameter((self.out_channels,), init) if has_bias else None

    def _weight_shape(self) -> tuple[int, ...]:
        """Return the weight's shape; refuse groups that do not divide the channels."""
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise ArgumentError(
                f"{type(self).__name__}: groups={self.groups} must divide "
                f"in_channels={self.in_channels} and out_channels={self.out_channels}"
            )
        channels = (self.out_channels, self.in_channels)
        first, second = channels[::-1] if self._transposed else channels
        return (first, second // self.groups, *self.kernel_size)


class _Conv(GroupedKernels):
    """What convolutions over one side and over two have in common."""

    stride: tuple[int, ...]
    padding: tuple[int, ...] | str
    dilation: tuple[int, ...]
    _sizes: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] | str = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
    ) -> None:
        super().__init__()
        self._set(in_channels=in_channels, out_channels=out_channels, kernel_size=kernel_size)
        self._set(stride=stride, dilation=dilation, padding=padding)
        self._zeros()
        self._set(groups=groups, padding_mode=padding_mode)
        self._make_parameters(bias)

    def _settled(self, name: str, value: object) -> object:
        """Return an attribute's value as the layer keeps it."""
        return self._padding(value) if name == "padding" else super()._settled(name, value)

    def _padding(self, padding: object) -> tuple[int, ...] | str:
        """Return the zeros on each end of every side, or the word for them."""
        what = type(self).__name__
        if isinstance(padding, str) and padding in ("valid", "same"):
            return padding
        sizes: tuple[int, ...] = type(self)._sizes(f"{what}: padding", padding, 0)
        return sizes

    def _zeros(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the zeros on each end of every side, and those on the last end beyond them."""
        none = (0,) * len(self.kernel_size)
        if not isinstance(self.padding, str):
            return self.padding, none
        if self.padding == "valid":
            return none, none
        if max(self.stride) > 1:
            raise ArgumentError(
                f"{type(self).__name__}: padding='same' needs stride 1, got stride {self.stride}; "
                "give padding as a number"
            )
        both = [d * (k - 1) for k, d in zip(self.kernel_size, self.dilation, strict=True)]
        return tuple(b // 2 for b in both), tuple(b % 2 for b in both)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value with out_channels channels."""
        what = (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {self.kernel_size}, "
            f"groups={self.groups})"
        )
        refuse_unlike(what, "a weight", self.weight, self._weight_shape())
        padding, over = self._zeros()
        attrs = Conv2dAttrs(
            as_pair(self.stride, 1),
            as_pair(padding, 0),
            as_pair(self.dilation, 1),
            self.groups,
            len(self.kernel_size),
            as_pair(over, 0),
        )
        return x.record(self, attrs, {"weight": self.weight, "bias": self.bias})

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding!r}, dilation={self.dilation}, "
            f"groups={self.groups}, bias={self.bias is not None}"
        )


class Conv1d(_Conv):
    """Cross-correlation of sequences (N, C, L) with kernels.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, dilation : int
    padding : int, 'valid' or 'same'
        Zeros on both ends; 'same' needs stride 1, and its odd zero goes to the last end.
    groups : int
        Divides both channel counts.
    bias : bool
    padding_mode : str
        Only 'zeros'.
    """

    _sizes = staticmethod(single)
    _rules: ClassVar[Mapping[str, Rule]] = conv_rules(single)


class Conv2d(_Conv):
    """Cross-correlation of images (N, C, H, W) with kernels.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, dilation : int or (height, width)
    padding : int, (height, width), 'valid' or 'same'
        Zeros on both sides; 'same' needs stride 1, and odd zeros go to the right and below.
    groups : int
        Divides both channel counts.
    bias : bool
    padding_mode : str
        Only 'zeros'.
    """

    _sizes = staticmethod(pair)
    _rules: ClassVar[Mapping[str, Rule]] = conv_rules(pair)
