"""Pooling over sequences and images by windows of one size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import ClassVar

from armtrain.errors import ArgumentError
from armtrain.ir.graph import AvgPool2dAttrs, MaxPool2dAttrs, Pair
from armtrain.limits import MAX_POOL_PLACES
from armtrain.nn.arguments import Rule, as_pair, pair, positive, refuse_unless, single
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor
from armtrain.values import truth

__all__ = [
    "AvgPool1d",
    "AvgPool2d",
    "MaxPool1d",
    "MaxPool2d",
]


def _check_padding(layer: str, padding: tuple[int, ...], reach: tuple[int, ...]) -> None:
    """Refuse padding of more than half a window, where a window could lie outside the image."""
    if any(2 * p > r for p, r in zip(padding, reach, strict=True)):
        raise ArgumentError(
            f"{layer}: padding {padding} is more than half of the window {reach}; "
            f"use at most {tuple(r // 2 for r in reach)}"
        )


def _divisor(what: str, value: object) -> int | None:
    """Return a divisor, or None for the window's size."""
    return None if value is None else positive(what, value)


def _window(sizes: Callable[..., object]) -> dict[str, Rule]:
    """Return the rules of a window's arguments; `sizes` makes one number for each side."""
    return {
        "kernel_size": partial(sizes, least=1),
        "stride": partial(sizes, least=1),
        "padding": partial(sizes, least=0),
        "ceil_mode": truth,
    }


def _max_rules(sizes: Callable[..., object]) -> dict[str, Rule]:
    """Return the rules of a maximum's arguments."""
    return {
        **_window(sizes),
        "dilation": partial(sizes, least=1),
        "return_indices": partial(refuse_unless, only=False),
    }


class _MaxPool(Module):
    """What maxima over one side and over two have in common."""

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool

    def __init__(
        self,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] | None = None,
        padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
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
        what = type(self).__name__
        if prod(self.kernel_size) > MAX_POOL_PLACES:
            raise ArgumentError(
                f"{what}: a window of {self.kernel_size} has more than {MAX_POOL_PLACES} "
                "pixels, whose places one byte cannot number; pool twice"
            )
        _check_padding(what, self.padding, self.kernel_size)

    def attrs(self) -> MaxPool2dAttrs:
        """Return what the layer computes."""
        self._check()
        return MaxPool2dAttrs(
            as_pair(self.kernel_size, 1),
            as_pair(self.stride, 1),
            as_pair(self.padding, 0),
            as_pair(self.dilation, 1),
            len(self.kernel_size),
            self.ceil_mode,
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return a value with other sides."""
        return x.record(self, self.attrs())

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """Maximum over windows of sequences (N, C, L).

    Parameters
    ----------
    kernel_size : int
        At most 255 places.
    stride : int, optional
        `kernel_size` if not given.
    padding, dilation : int
        Ends count as minus infinity.
    return_indices : bool
        Only False.
    ceil_mode : bool
        Whether a last window may reach beyond the end.
    """

    _rules: ClassVar[Mapping[str, Rule]] = _max_rules(single)


class MaxPool2d(_MaxPool):
    """Maximum over windows of images (N, C, H, W).

    Parameters
    ----------
    kernel_size : int or (height, width)
        At most 255 pixels.
    stride : int or (height, width), optional
        `kernel_size` if not given.
    padding, dilation : int or (height, width)
        Borders count as minus infinity.
    return_indices : bool
        Only False.
    ceil_mode : bool
        Whether last windows may reach beyond the border.
    """

    _rules: ClassVar[Mapping[str, Rule]] = _max_rules(pair)


class _AvgPool(Module):
    """What means over one side and over two have in common."""

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    ceil_mode: bool
    count_include_pad: bool
    divisor_override: int | None = None

    def attrs(self) -> AvgPool2dAttrs:
        """Return what the layer computes."""
        _check_padding(type(self).__name__, self.padding, self.kernel_size)
        return AvgPool2dAttrs(
            as_pair(self.kernel_size, 1),
            as_pair(self.stride, 1),
            as_pair(self.padding, 0),
            self.count_include_pad,
            len(self.kernel_size),
            self.ceil_mode,
            self.divisor_override or 0,
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return a value with other sides."""
        return x.record(self, self.attrs())

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"ceil_mode={self.ceil_mode}, count_include_pad={self.count_include_pad}"
        )


class AvgPool1d(_AvgPool):
    """Mean over windows of sequences (N, C, L).

    Parameters
    ----------
    kernel_size : int
    stride : int, optional
        `kernel_size` if not given.
    padding : int
        Zeros.
    ceil_mode : bool
        Whether a last window may reach beyond the end; the divisor counts nothing there.
    count_include_pad : bool
        Whether padding counts in the divisor.
    """

    _rules: ClassVar[Mapping[str, Rule]] = {**_window(single), "count_include_pad": truth}

    def __init__(
        self,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] | None = None,
        padding: int | tuple[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self._set(kernel_size=kernel_size, stride=kernel_size if stride is None else stride)
        self._set(padding=padding, ceil_mode=ceil_mode, count_include_pad=count_include_pad)
        _check_padding("AvgPool1d", self.padding, self.kernel_size)


class AvgPool2d(_AvgPool):
    """Mean over windows of images (N, C, H, W).

    Parameters
    ----------
    kernel_size : int or (height, width)
    stride : int or (height, width), optional
        `kernel_size` if not given.
    padding : int or (height, width)
        Zeros.
    ceil_mode : bool
        Whether last windows may reach beyond the border; the divisor counts nothing there.
    count_include_pad : bool
        Whether padding counts in the divisor.
    divisor_override : int, optional
        The divisor of every window.
    """

    _rules: ClassVar[Mapping[str, Rule]] = {
        **_window(pair),
        "count_include_pad": truth,
        "divisor_override": _divisor,
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
