"""Convolution over images."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from armtrain.errors import ArgumentError
from armtrain.ir.graph import Conv2dAttrs, Pair
from armtrain.limits import MAX_WINDOW
from armtrain.nn.arguments import Rule, pair, positive, refuse_unless, refuse_unlike
from armtrain.nn.module import Module
from armtrain.nn.parameter import Parameter, uniform_fan_in
from armtrain.nn.tensor import Tensor
from armtrain.values import truth

__all__ = ["Conv2d"]


class Conv2d(Module):
    """Cross-correlation of images (N, C, H, W) with kernels.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, dilation : int or (height, width)
    padding : int, (height, width), 'valid' or 'same'
        Zeros on both sides; 'same' needs stride 1 and an odd reach of the kernel.
    groups : int
        Divides both channel counts.
    bias : bool
    padding_mode : str
        Only 'zeros'.
    """

    in_channels: int
    out_channels: int
    kernel_size: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int
    _rules: ClassVar[Mapping[str, Rule]] = {
        "in_channels": positive,
        "out_channels": positive,
        "kernel_size": partial(pair, least=1),
        "stride": partial(pair, least=1),
        "dilation": partial(pair, least=1),
        "groups": partial(positive, most=MAX_WINDOW),
        "padding_mode": partial(refuse_unless, only="zeros"),
    }

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Pair,
        stride: int | Pair = 1,
        padding: int | Pair | str = 0,
        dilation: int | Pair = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
    ) -> None:
        super().__init__()
        self._set(in_channels=in_channels, out_channels=out_channels, kernel_size=kernel_size)
        self._set(stride=stride, dilation=dilation, padding=padding)
        self._set(groups=groups, padding_mode=padding_mode)
        shape = self._weight_shape()
        init = uniform_fan_in(shape[1] * shape[2] * shape[3])
        self.weight = Parameter(shape, init)
        self.bias = Parameter((self.out_channels,), init) if truth("Conv2d: bias", bias) else None

    def _weight_shape(self) -> tuple[int, int, int, int]:
        """Return the weight's shape; refuse groups that do not divide the channels."""
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise ArgumentError(
                f"Conv2d: groups={self.groups} must divide in_channels={self.in_channels} and "
                f"out_channels={self.out_channels}"
            )
        return (self.out_channels, self.in_channels // self.groups, *self.kernel_size)

    def _settled(self, name: str, value: object) -> object:
        """Return an attribute's value as the layer keeps it."""
        return self._padding(value) if name == "padding" else super()._settled(name, value)

    def _padding(self, padding: object) -> Pair:
        """Return the zeros on each side along (height, width)."""
        if isinstance(padding, str) and padding == "valid":
            return 0, 0
        if not isinstance(padding, str) or padding != "same":
            return pair("Conv2d: padding", padding, 0)
        axes = zip(self.kernel_size, self.dilation, strict=True)
        both = tuple(d * (k - 1) for k, d in axes)
        if self.stride != (1, 1) or both[0] % 2 or both[1] % 2:
            raise ArgumentError(
                f"Conv2d: padding='same' needs stride 1 and an odd kernel, got stride "
                f"{self.stride} and kernel {self.kernel_size}; give padding as a number"
            )
        return both[0] // 2, both[1] // 2

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of shape (N, out_channels, P, Q)."""
        what = (
            f"Conv2d({self.in_channels}, {self.out_channels}, {self.kernel_size}, "
            f"groups={self.groups})"
        )
        refuse_unlike(what, "a weight", self.weight, self._weight_shape())
        attrs = Conv2dAttrs(self.stride, self.padding, self.dilation, self.groups)
        return x.record(self, attrs, {"weight": self.weight, "bias": self.bias})

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"groups={self.groups}, bias={self.bias is not None}"
        )
