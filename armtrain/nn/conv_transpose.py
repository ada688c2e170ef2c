"""Transposed convolution over sequences and images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

from armtrain.errors import ArgumentError
from armtrain.ir.graph import ConvTranspose2dAttrs
from armtrain.nn.arguments import Rule, as_pair, pair, refuse_unlike, single
from armtrain.nn.conv import GroupedKernels, conv_rules
from armtrain.nn.tensor import Tensor

__all__ = ["ConvTranspose1d", "ConvTranspose2d"]


def _rules(sizes: Callable[..., object]) -> dict[str, Rule]:
    """Return the rules of the arguments; `sizes` makes one number for each side."""
    zeros = dict.fromkeys(("padding", "output_padding"), partial(sizes, least=0))
    return {**conv_rules(sizes), **zeros}


class _ConvTranspose(GroupedKernels):
    """What transposed convolutions over one side and over two have in common."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    dilation: tuple[int, ...]
    _transposed: ClassVar[bool] = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
    ) -> None:
        super().__init__()
        self._set(in_channels=in_channels, out_channels=out_channels, kernel_size=kernel_size)
        self._set(stride=stride, dilation=dilation, padding=padding)
        self._set(output_padding=output_padding, groups=groups, padding_mode=padding_mode)
        self._check_output_padding()
        self._make_parameters(bias)

    def _check_output_padding(self) -> None:
        """Refuse more rows or columns than the convolution's stride can leave out."""
        if any(more >= s for more, s in zip(self.output_padding, self.stride, strict=True)):
            raise ArgumentError(
                f"{type(self).__name__}: output_padding {self.output_padding} needs a larger "
                f"stride, it is {self.stride}; use at most {tuple(s - 1 for s in self.stride)}, or "
                "less padding"
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return a value with out_channels channels."""
        what = (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {self.kernel_size}, "
            f"groups={self.groups})"
        )
        refuse_unlike(what, "a weight", self.weight, self._weight_shape())
        self._check_output_padding()
        attrs = ConvTranspose2dAttrs(
            as_pair(self.stride, 1),
            as_pair(self.padding, 0),
            as_pair(self.dilation, 1),
            self.groups,
            as_pair(self.output_padding, 0),
            len(self.kernel_size),
        )
        return x.record(self, attrs, {"weight": self.weight, "bias": self.bias})

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, "
            f"output_padding={self.output_padding}, dilation={self.dilation}, "
            f"groups={self.groups}, bias={self.bias is not None}"
        )


class ConvTranspose1d(_ConvTranspose):
    """The input gradient of a Conv1d from the output to x, as a layer on sequences (N, C, L).

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, padding, dilation : int
        Those of the convolution.
    output_padding : int
        Places at the end that the convolution's stride leaves out; less than the stride.
    groups : int
        Divides both channel counts.
    bias : bool
        Whether there is one of shape (out_channels,). The weight has shape
        (in_channels, out_channels // groups, kernel_size).
    padding_mode : str
        Only 'zeros'.
    """

    _rules: ClassVar[Mapping[str, Rule]] = _rules(single)


class ConvTranspose2d(_ConvTranspose):
    """The input gradient of a Conv2d from the output to x, as a layer on images (N, C, H, W).

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, padding, dilation : int or (height, width)
        Those of the convolution.
    output_padding : int or (height, width)
        Rows and columns at the end that the convolution's stride leaves out; less than the stride.
    groups : int
        Divides both channel counts.
    bias : bool
        Whether there is one of shape (out_channels,). The weight has shape
        (in_channels, out_channels // groups, height, width).
    padding_mode : str
        Only 'zeros'.
    """

    _rules: ClassVar[Mapping[str, Rule]] = _rules(pair)
