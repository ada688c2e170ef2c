"""Batch normalisation over features, sequences and images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from armtrain.errors import ArgumentError
from armtrain.ir.graph import BatchNorm2dAttrs
from armtrain.nn.arguments import Rule, positive, rate, refuse_unlike
from armtrain.nn.module import Module
from armtrain.nn.parameter import Buffer, Parameter, constant
from armtrain.nn.tensor import Tensor
from armtrain.values import truth

__all__ = ["BatchNorm1d", "BatchNorm2d"]


def _share(what: str, value: object) -> float:
    """Return the weight of the new value in running statistics."""
    if value is None:
        raise ArgumentError(
            f"{what}=None (a cumulative mean) is not available; use a number from 0 to 1, such as "
            "0.1"
        )
    return rate(what, value, 1.0)


_MODES = ("train", "frozen_statistics", "frozen_all")


class _BatchNorm(Module):
    """What batch normalisation over one side and over two have in common."""

    num_features: int
    eps: float
    momentum: float
    affine: bool
    track_running_stats: bool
    _sides: ClassVar[int]
    _rules: ClassVar[Mapping[str, Rule]] = {
        "num_features": positive,
        "eps": rate,
        "momentum": _share,
        "affine": truth,
        "track_running_stats": truth,
    }

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        self._set(num_features=num_features, eps=eps, momentum=momentum)
        self._set(affine=affine, track_running_stats=track_running_stats)
        self._mode = "train"
        shape = (self.num_features,)
        self.weight = Parameter(shape, constant(1.0)) if self.affine else None
        self.bias = Parameter(shape, constant(0.0)) if self.affine else None
        self.running_mean = Buffer(shape, constant(0.0)) if self.track_running_stats else None
        self.running_var = Buffer(shape, constant(1.0)) if self.track_running_stats else None

    @property
    def mode(self) -> str:
        """What `set_mode` chose last; setting it calls `set_mode`."""
        return self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        self.set_mode(mode)

    def set_mode(self, mode: str) -> Self:
        """Choose what training steps do with the layer; `train()` and `eval()` change no mode.

        Parameters
        ----------
        mode : str
            'train': the batch's statistics, and running ones that move. 'frozen_statistics': the
            running statistics as they are; `weight` and `bias` are trained. 'frozen_all': so are
            `weight` and `bias`. The rules are in docs/batch-norm.md.

        Raises
        ------
        ArgumentError
            Another word, or there are no running statistics to freeze.
        """
        if mode not in _MODES:
            raise ArgumentError(
                f"{type(self).__name__}: mode {mode!r:.80} is not available; use one of "
                f"{', '.join(_MODES)}"
            )
        if mode != "train" and not self.track_running_stats:
            raise ArgumentError(
                f"{type(self).__name__}: mode '{mode}' uses running statistics, which this layer "
                "has not; make it with track_running_stats=True"
            )
        self._mode = mode
        for member in (self.weight, self.bias):
            if member is not None:
                member.requires_grad_(mode != "frozen_all")
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        training = (self.training and self._mode == "train") or not self.track_running_stats
        attrs = BatchNorm2dAttrs(self.eps, self.momentum, training, self._sides)
        slots = ("weight", "bias", "running_mean", "running_var")
        members = {slot: getattr(self, slot) for slot in slots}
        for slot, member in members.items():
            what = f"{type(self).__name__}({self.num_features})"
            refuse_unlike(what, slot, member, (self.num_features,))
        return x.record(self, attrs, members)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm2d(_BatchNorm):
    """Normalisation of every channel of images (N, C, H, W) over N, H and W.

    A training step normalises with the batch's mean and variance (divided by the count) and moves
    `running_mean` and `running_var` (divided by the count less one) towards them by `momentum`.
    After `eval()` training steps normalise with the running statistics and leave them alone;
    `set_mode` says so by name, whatever `train()` of a network around it does.
    Evaluation and prediction always use the running ones, if there are any.

    Parameters
    ----------
    num_features : int
        Channels.
    eps : float
        Added to the variance.
    momentum : float
        Weight of the new value in the running statistics.
    affine : bool
        Whether there are `weight` (at first 1) and `bias` (at first 0).
    track_running_stats : bool
        Whether there are running statistics; without them evaluation uses the batch's own.
    """

    _sides = 2


class BatchNorm1d(_BatchNorm):
    """Normalisation of every feature of (N, C) over N, or channel of (N, C, L) over N and L.

    Statistics, modes and arguments are those of `BatchNorm2d`.

    Parameters
    ----------
    num_features : int
    eps, momentum : float
    affine, track_running_stats : bool
    """

    _sides = 1
