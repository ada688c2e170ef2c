"""Upsampling of sequences and images."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import ClassVar

from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.graph import Resample2dAttrs, Resampling
from armtrain.limits import MAX_FLOAT, MAX_SIDE, MIN_FLOAT
from armtrain.nn.arguments import Rule, as_pair
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor
from armtrain.values import integer, real, truth

__all__ = ["Upsample"]

_METHODS: dict[str, tuple[Resampling, frozenset[int]]] = {
    "nearest": (Resampling.NEAREST, frozenset({1, 2})),
    "linear": (Resampling.BILINEAR, frozenset({1})),
    "bilinear": (Resampling.BILINEAR, frozenset({2})),
}
"""Mode -> how, and the sides that it works on."""


def _each(value: object) -> tuple[object, ...]:
    """Return the numbers of each side, or the one of all of them."""
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _size(what: str, value: object) -> object:
    """Return the output's side or sides."""
    if value is None:
        return None
    sides = tuple(integer(what, n, 1, MAX_SIDE) for n in _each(value))
    return sides if isinstance(value, tuple | list) else sides[0]


def _factor(what: str, value: object) -> object:
    """Return one positive number or one for each side."""
    if value is None:
        return None
    factors = tuple(real(what, n, MIN_FLOAT, MAX_FLOAT) for n in _each(value))
    return factors if isinstance(value, tuple | list) else factors[0]


def _mode(what: str, value: object) -> str:
    """Return the name of a method."""
    if not isinstance(value, str) or value not in _METHODS:
        raise ArgumentError(f"{what}={value!r} is not available; use one of {', '.join(_METHODS)}")
    return value


def _flag_or_none(what: str, value: object) -> bool | None:
    """Return True, False or None."""
    return None if value is None else truth(what, value)


class Upsample(Module):
    """Sequences (N, C, L) or images (N, C, H, W) of another size.

    Parameters
    ----------
    size : int or (height, width), optional
        The output's sides.
    scale_factor : float or (height, width), optional
        Output pixels for one of the input, instead of `size`; sides are rounded down.
    mode : str
        'nearest', 'linear' (sequences) or 'bilinear' (images); docs/windows.md has their rules.
    align_corners : bool, optional
        Whether the corners' centres meet (True) or the outer edges; not for 'nearest'.
    recompute_scale_factor : bool, optional
        Whether places follow from the sizes instead of from `scale_factor`.
    """

    size: int | tuple[int, ...] | None
    scale_factor: float | tuple[float, ...] | None
    mode: str
    align_corners: bool | None
    recompute_scale_factor: bool | None
    _rules: ClassVar[Mapping[str, Rule]] = {
        "size": _size,
        "scale_factor": _factor,
        "mode": _mode,
        "align_corners": _flag_or_none,
        "recompute_scale_factor": _flag_or_none,
    }

    def __init__(
        self,
        size: int | tuple[int, ...] | None = None,
        scale_factor: float | tuple[float, ...] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self._set(size=size, scale_factor=scale_factor, mode=mode, align_corners=align_corners)
        self._set(recompute_scale_factor=recompute_scale_factor)
        self._check()

    def _check(self) -> None:
        """Refuse arguments that do not go together."""
        if (self.size is None) == (self.scale_factor is None):
            raise ArgumentError(
                f"Upsample needs size or scale_factor and not both, got size={self.size} and "
                f"scale_factor={self.scale_factor}"
            )
        if self.mode == "nearest" and self.align_corners is not None:
            raise ArgumentError(
                f"Upsample: align_corners={self.align_corners} has no meaning for mode='nearest'; "
                "leave it out, or use mode='bilinear' (images) or 'linear' (sequences)"
            )
        if self.recompute_scale_factor and self.size is not None:
            raise ArgumentError("Upsample: recompute_scale_factor=True needs a scale_factor")

    def attrs(self, shape: tuple[int, ...]) -> Resample2dAttrs:
        """Return what the layer computes of an input of `shape`."""
        self._check()
        method, works_on = _METHODS[self.mode]
        sides = len(shape) - 2
        if sides not in works_on:
            fitting = [m for m, (_, of) in _METHODS.items() if sides in of]
            raise ShapeError(
                f"Upsample(mode='{self.mode}') does not work on an input of shape {shape}; "
                + (f"use mode={' or '.join(map(repr, fitting))}" if fitting else "flatten after it")
            )
        given = _each(self.scale_factor if self.size is None else self.size)
        numbers = given * sides if len(given) == 1 else given
        if len(numbers) != sides:
            raise ShapeError(f"Upsample: {given} are not the {sides} sides of {shape}")
        scales = (0.0,) * sides
        size = tuple(int(n) for n in numbers)  # type: ignore[call-overload]
        if self.size is None:
            factors = tuple(float(n) for n in numbers)  # type: ignore[arg-type]
            size = tuple(floor(s * f) for s, f in zip(shape[2:], factors, strict=True))
            scales = scales if self.recompute_scale_factor else factors
        if not all(1 <= s <= MAX_SIDE for s in size):
            raise ShapeError(
                f"Upsample: scale_factor={self.scale_factor} makes an input of shape {shape} "
                f"{'x'.join(map(str, size))}; sides from 1 to {MAX_SIDE:,d} are possible"
            )
        # Without a neighbour above or below, one row stays as it is.
        scale_h, scale_w = scales if sides == 2 else (0.0, scales[0])
        values: dict[str, int | float] = {"scale_h": scale_h, "scale_w": scale_w}
        if method is Resampling.BILINEAR:
            values["align_corners"] = int(bool(self.align_corners))
        return Resample2dAttrs(method, as_pair(size, 1), tuple(values.items()), sides)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value with other sides."""
        return x.record(self, self.attrs(x.shape))

    def extra_repr(self) -> str:
        """Return the arguments."""
        size = f"size={self.size}" if self.size else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}, align_corners={self.align_corners}"
