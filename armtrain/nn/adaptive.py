"""Pooling of sequences and images to outputs of a fixed size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.graph import AvgPool2dAttrs, Resample2dAttrs, Resampling
from armtrain.nn.arguments import Rule, as_pair, pair, single
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor

__all__ = ["AdaptiveAvgPool1d", "AdaptiveAvgPool2d"]

Sides = tuple[int | None, ...]


def _sides(sizes: Callable[..., tuple[int, ...]], count: int, what: str, value: object) -> Sides:
    """Return the output's sides, None where they are the input's."""
    given = tuple(value) if isinstance(value, tuple | list) else (value,) * count
    if len(given) != count:
        raise ArgumentError(f"{what} needs {count} sides, got {value!r}")
    return tuple(None if n is None else sizes(what, n, 1)[0] for n in given)


class _AdaptiveAvgPool(Module):
    """What means of a fixed number of windows have in common."""

    output_size: Sides
    _count: ClassVar[int]

    def __init__(self, output_size: int | Sides) -> None:
        super().__init__()
        self._set(output_size=output_size)

    def attrs(self, shape: tuple[int, ...]) -> AvgPool2dAttrs | Resample2dAttrs:
        """Return what the layer computes of an input of `shape`.

        Windows of one size side by side are a plain pool's.
        """
        sides, count = shape[2:], self._count
        if len(sides) != count:
            needed = "sequences (N, C, L)" if count == 1 else "images (N, C, H, W)"
            raise ShapeError(
                f"{type(self).__name__} needs {needed}, its input has shape {shape}; flatten only "
                "after it"
            )
        size = tuple(s if o is None else o for s, o in zip(sides, self.output_size, strict=True))
        if any(s % o for s, o in zip(sides, size, strict=True)):
            return Resample2dAttrs(Resampling.ADAPTIVE, as_pair(size, 1), (), count)
        window = as_pair(tuple(s // o for s, o in zip(sides, size, strict=True)), 1)
        return AvgPool2dAttrs(window, window, (0, 0), True, count)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value with sides `output_size`."""
        return x.record(self, self.attrs(x.shape))

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Mean over windows of sequences (N, C, L) that give an output of a fixed length.

    Parameters
    ----------
    output_size : int or None
        Window o of `output_size` covers places floor(o L / output_size) to
        ceil((o + 1) L / output_size); None: the input's length.
    """

    _count = 1
    _rules: ClassVar[Mapping[str, Rule]] = {"output_size": partial(_sides, single, 1)}


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Mean over windows of images (N, C, H, W) that give an output of a fixed size.

    Parameters
    ----------
    output_size : int or (height, width)
        Along each side windows as of `AdaptiveAvgPool1d`; None: the input's side.
    """

    _count = 2
    _rules: ClassVar[Mapping[str, Rule]] = {"output_size": partial(_sides, pair, 2)}
