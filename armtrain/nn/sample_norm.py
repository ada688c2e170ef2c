"""Normalisation by statistics of a sample, the same in training and evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod
from typing import ClassVar

from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.graph import LayerNormAttrs
from armtrain.nn.arguments import Rule, positive, rate, refuse_unlike
from armtrain.nn.module import Module
from armtrain.nn.parameter import Parameter, constant
from armtrain.nn.tensor import Tensor, reshape
from armtrain.values import as_integer, as_tuple, truth

__all__ = ["GroupNorm", "LayerNorm", "RMSNorm"]

_FLOAT32_EPSILON = 2.0**-23
_MOST_DIMENSIONS = 5


def _shape(what: str, value: object) -> tuple[int, ...]:
    """Return an integer or a sequence of integers as a shape."""
    sizes = (value,) if as_integer(value) is not None else as_tuple(value) or ()
    if not 1 <= len(sizes) <= _MOST_DIMENSIONS:
        raise ArgumentError(
            f"{what} needs an integer or 1 to {_MOST_DIMENSIONS} of them, the last dimensions of "
            f"the input, got {value!r:.80}"
        )
    return tuple(positive(what, size) for size in sizes)


def _epsilon(what: str, value: object) -> float:
    """Return a number; None stands for the spacing of float32 at 1, as in torch."""
    return _FLOAT32_EPSILON if value is None else rate(what, value)


class _RowNorm(Module):
    """What norms over the last dimensions have in common."""

    normalized_shape: tuple[int, ...]
    eps: float
    elementwise_affine: bool
    weight: Parameter | None
    bias: Parameter | None
    _centred: ClassVar[bool]
    _rules: ClassVar[Mapping[str, Rule]] = {
        "normalized_shape": _shape,
        "eps": _epsilon,
        "elementwise_affine": truth,
    }

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        what, members = f"{type(self).__name__}({self.normalized_shape})", self._members_of()
        for slot, member in members.items():
            refuse_unlike(what, slot, member, self.normalized_shape)
        attrs = LayerNormAttrs(self.normalized_shape, self.eps, self._centred)
        return x.record(self, attrs, members)

    def _members_of(self) -> dict[str, Parameter | None]:
        """Return the parameters by slot."""
        return {"weight": self.weight, "bias": self.bias}

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class LayerNorm(_RowNorm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias over the last dimensions of x.

    Mean and variance (divided by the count) are those of each sample's each row.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The last dimension, or the last several.
    eps : float
        Added to the variance.
    elementwise_affine : bool
        Whether there is a `weight` of that shape (at first 1), and a bias.
    bias : bool
        Whether there is a `bias` (at first 0) beside the weight.
    """

    _centred = True

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._set(normalized_shape=normalized_shape, eps=rate("LayerNorm: eps", eps))
        self._set(elementwise_affine=elementwise_affine)
        shape, affine = self.normalized_shape, self.elementwise_affine
        biased = truth("LayerNorm: bias", bias) and affine
        self.weight = Parameter(shape, constant(1.0)) if affine else None
        self.bias = Parameter(shape, constant(0.0)) if biased else None


class RMSNorm(_RowNorm):
    """y = x / sqrt(mean of x^2 + eps) * weight over the last dimensions of x.

    Source: Zhang and Sennrich, "Root Mean Square Layer Normalization" (arXiv 1910.07467).

    Parameters
    ----------
    normalized_shape : int or sequence of int
    eps : float, optional
        None: 2^-23, the spacing of float32 at 1.
    elementwise_affine : bool
        Whether there is a `weight` (at first 1).
    """

    _centred = False

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
    ) -> None:
        super().__init__()
        self._set(normalized_shape=normalized_shape, eps=eps)
        self._set(elementwise_affine=elementwise_affine)
        weighs = self.elementwise_affine
        self.weight = Parameter(self.normalized_shape, constant(1.0)) if weighs else None

    def _members_of(self) -> dict[str, Parameter | None]:
        """Return the weight alone."""
        return {"weight": self.weight}


class GroupNorm(Module):
    """Normalisation of (N, C, ...) over groups of C / num_groups channels of every sample.

    It needs no batch, and is the same in training and evaluation. One group normalises the whole
    sample, as many as channels each channel of it.

    Parameters
    ----------
    num_groups, num_channels : int
        The groups divide the channels.
    eps : float
        Added to the variance, which is divided by the count.
    affine : bool
        Whether there are `weight` (at first 1) and `bias` (at first 0), one number per channel.
    """

    num_groups: int
    num_channels: int
    eps: float
    affine: bool
    _rules: ClassVar[Mapping[str, Rule]] = {
        "num_groups": positive,
        "num_channels": positive,
        "eps": rate,
        "affine": truth,
    }

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True
    ) -> None:
        super().__init__()
        self._set(num_groups=num_groups, num_channels=num_channels, eps=eps, affine=affine)
        self._check_groups()
        shape = (self.num_channels,)
        self.weight = Parameter(shape, constant(1.0)) if self.affine else None
        self.bias = Parameter(shape, constant(0.0)) if self.affine else None

    def _check_groups(self) -> None:
        """Refuse groups that do not divide the channels."""
        if self.num_channels % self.num_groups:
            raise ArgumentError(
                f"GroupNorm: num_groups={self.num_groups} must divide "
                f"num_channels={self.num_channels}"
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape.

        Rows of the channels of a group have the statistics; weight and bias stand beside the last
        dimension, to which channels are moved.
        """
        self._check_groups()
        self._check_input(x)
        what = f"GroupNorm({self.num_groups}, {self.num_channels})"
        length = prod(x.shape[1:]) // self.num_groups
        rows = reshape(x, (*x.shape[:1], self.num_groups, length))
        y = reshape(rows.record(self, LayerNormAttrs((length,), self.eps, centred=True)), x.shape)
        for slot, member in (("weight", self.weight), ("bias", self.bias)):
            refuse_unlike(what, slot, member, (self.num_channels,))
        if self.weight is None and self.bias is None:
            return y
        y = y.permute(0, *range(2, x.ndim), 1)
        y = y if self.weight is None else y * self.weight
        y = y if self.bias is None else y + self.bias
        return y.permute(0, x.ndim - 1, *range(1, x.ndim - 1))

    def _check_input(self, x: Tensor) -> None:
        """Refuse other channels, and groups of one value."""
        what = f"GroupNorm({self.num_groups}, {self.num_channels})"
        if not 2 <= x.ndim <= 4:
            raise ShapeError(
                f"{what} needs features (N, C), sequences (N, C, L) or images (N, C, H, W), its "
                f"input has shape {x.shape}"
            )
        if x.size(1) != self.num_channels:
            raise ShapeError(
                f"{what}: its input of shape {x.shape} has {x.shape[1]} channels; write "
                f"nn.GroupNorm({gcd(self.num_groups, x.shape[1])}, {x.shape[1]})"
            )
        if prod(x.shape[1:]) == self.num_groups:
            raise ShapeError(
                f"{what}: each of {self.num_groups} groups of an input of shape {x.shape} is one "
                "value, which has no variance; use fewer groups"
            )

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"
