"""Convolution over images."""

from __future__ import annotations

from armtrain.errors import ArgumentError
from armtrain.ir.graph import Conv2dAttrs, Pair
from armtrain.limits import MAX_WINDOW
from armtrain.nn.arguments import pair, positive, refuse_unless
from armtrain.nn.module import Module
from armtrain.nn.parameter import Parameter, uniform_fan_in
from armtrain.nn.tensor import Tensor

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
        self.in_channels = positive("Conv2d: in_channels", in_channels)
        self.out_channels = positive("Conv2d: out_channels", out_channels)
        self.kernel_size = pair("Conv2d: kernel_size", kernel_size, 1)
        self.stride = pair("Conv2d: stride", stride, 1)
        self.dilation = pair("Conv2d: dilation", dilation, 1)
        self.padding = self._padding(padding)
        self.groups = positive("Conv2d: groups", groups, MAX_WINDOW)
        refuse_unless("Conv2d: padding_mode", padding_mode, "zeros")
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise ArgumentError(
                f"Conv2d: groups={groups} must divide in_channels={in_channels} and "
                f"out_channels={out_channels}"
            )
        shape = (self.out_channels, self.in_channels // self.groups, *self.kernel_size)
        init = uniform_fan_in(shape[1] * shape[2] * shape[3])
        self.weight = Parameter(shape, init)
        self.bias = Parameter((self.out_channels,), init) if bias else None

    def _padding(self, padding: int | Pair | str) -> Pair:
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
        attrs = Conv2dAttrs(self.stride, self.padding, self.dilation, self.groups)
        return x.record(self, attrs, {"weight": self.weight, "bias": self.bias})

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"groups={self.groups}, bias={self.bias is not None}"
        )
