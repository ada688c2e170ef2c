"""Pooling over images."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.graph import AvgPool2dAttrs, MaxPool2dAttrs, Pair
from armtrain.limits import MAX_POOL_PLACES
from armtrain.nn.arguments import Rule, pair, refuse_unless
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor
from armtrain.values import truth

__all__ = ["AdaptiveAvgPool2d", "AvgPool2d", "MaxPool2d"]


def _check_padding(layer: str, padding: Pair, reach: Pair) -> None:
    """Refuse padding of more than half a window, where a window could lie outside the image."""
    if any(2 * p > r for p, r in zip(padding, reach, strict=True)):
        raise ArgumentError(
            f"{layer}: padding {padding} is more than half of the window {reach}; "
            f"use at most {tuple(r // 2 for r in reach)}"
        )


def _no_ceil(what: str, value: object) -> bool:
    """Return False; refuse True."""
    if truth(what, value):
        raise ArgumentError(
            f"{what}=True is not available; pad the image so that the windows fit "
            "(padding=...) or use ceil_mode=False, which drops the incomplete last window"
        )
    return False


_WINDOW: Mapping[str, Rule] = {
    "kernel_size": partial(pair, least=1),
    "stride": partial(pair, least=1),
    "padding": partial(pair, least=0),
    "ceil_mode": _no_ceil,
}


class MaxPool2d(Module):
    """Maximum over windows of images (N, C, H, W).

    Parameters
    ----------
    kernel_size : int or (height, width)
        At most 255 pixels.
    stride : int or (height, width), optional
        `kernel_size` if not given.
    padding, dilation : int or (height, width)
        Borders count as minus infinity.
    return_indices, ceil_mode : bool
        Only False.
    """

    kernel_size: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    _rules: ClassVar[Mapping[str, Rule]] = {
        **_WINDOW,
        "dilation": partial(pair, least=1),
        "return_indices": partial(refuse_unless, only=False),
    }

    def __init__(
        self,
        kernel_size: int | Pair,
        stride: int | Pair | None = None,
        padding: int | Pair = 0,
        dilation: int | Pair = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self._set(kernel_size=kernel_size, stride=kernel_size if stride is None else stride)
        self._set(padding=padding, dilation=dilation)
        self._set(return_indices=return_indices, ceil_mode=ceil_mode)
        self._check()

    def _check(self) -> None:
        """Refuse arguments that do not go together."""
        if self.kernel_size[0] * self.kernel_size[1] > MAX_POOL_PLACES:
            raise ArgumentError(
                f"MaxPool2d: a window of {self.kernel_size} has more than {MAX_POOL_PLACES} "
                "pixels, whose places one byte cannot number; pool twice"
            )
        _check_padding("MaxPool2d", self.padding, self.kernel_size)

    def attrs(self) -> MaxPool2dAttrs:
        """Return what the layer computes."""
        self._check()
        return MaxPool2dAttrs(self.kernel_size, self.stride, self.padding, self.dilation)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of shape (N, C, P, Q)."""
        return x.record(self, self.attrs())

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}"
        )


class AvgPool2d(Module):
    """Mean over windows of images (N, C, H, W).

    Parameters
    ----------
    kernel_size : int or (height, width)
    stride : int or (height, width), optional
        `kernel_size` if not given.
    padding : int or (height, width)
        Zeros.
    ceil_mode : bool
        Only False.
    count_include_pad : bool
        Whether padding counts in the divisor.
    divisor_override : None
        Only None.
    """

    kernel_size: Pair
    stride: Pair
    padding: Pair
    count_include_pad: bool
    _rules: ClassVar[Mapping[str, Rule]] = {
        **_WINDOW,
        "count_include_pad": truth,
        "divisor_override": partial(refuse_unless, only=None),
    }

    def __init__(
        self,
        kernel_size: int | Pair,
        stride: int | Pair | None = None,
        padding: int | Pair = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self._set(kernel_size=kernel_size, stride=kernel_size if stride is None else stride)
        self._set(padding=padding, ceil_mode=ceil_mode, count_include_pad=count_include_pad)
        self._set(divisor_override=divisor_override)
        _check_padding("AvgPool2d", self.padding, self.kernel_size)

    def attrs(self) -> AvgPool2dAttrs:
        """Return what the layer computes."""
        _check_padding("AvgPool2d", self.padding, self.kernel_size)
        return AvgPool2dAttrs(self.kernel_size, self.stride, self.padding, self.count_include_pad)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of shape (N, C, P, Q)."""
        return x.record(self, self.attrs())

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool2d(Module):
    """Mean over windows of images (N, C, H, W) that give an output of a fixed size.

    Parameters
    ----------
    output_size : int or (height, width)
        The image's sides must be multiples of it: then torch's windows are all of one size.
    """

    output_size: Pair
    _rules: ClassVar[Mapping[str, Rule]] = {"output_size": partial(pair, least=1)}

    def __init__(self, output_size: int | Pair) -> None:
        super().__init__()
        self._set(output_size=output_size)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of shape (N, C, *output_size).

        Raises
        ------
        ShapeError
            A side is no multiple of the output's.
        """
        sides = x.shape[2:]
        if len(x.shape) != 4 or any(s % o for s, o in zip(sides, self.output_size, strict=True)):
            raise ShapeError(
                f"AdaptiveAvgPool2d needs images (N, C, H, W) with sides that are multiples of "
                f"{self.output_size}, its input has shape {x.shape}; resize or pad the images, or "
                "use AvgPool2d with a window and a stride that fit"
            )
        height, width = (s // o for s, o in zip(sides, self.output_size, strict=True))
        return x.record(self, AvgPool2d((height, width)).attrs())

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"output_size={self.output_size}"
