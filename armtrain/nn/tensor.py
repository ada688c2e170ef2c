"""Symbolic tensors: what `forward` receives instead of numbers while a network is traced."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from math import prod
from typing import TYPE_CHECKING, Protocol

from armtrain.errors import ShapeError
from armtrain.ir.graph import (
    Activation,
    ActivationAttrs,
    AddAttrs,
    Attrs,
    FlattenAttrs,
    ReluAttrs,
    SoftmaxAttrs,
    TanhAttrs,
)
from armtrain.values import as_integer

if TYPE_CHECKING:
    from armtrain.nn.parameter import Buffer

__all__ = ["Recorder", "Tensor"]

_AVAILABLE = (
    "+, flatten, reshape/view to (N, features), relu, tanh, sigmoid, softmax, "
    "log_softmax and the layers of armtrain.nn"
)


class Recorder(Protocol):
    """What writes down operations; `owner` is the layer, or None for an operator."""

    def record(
        self,
        owner: object | None,
        attrs: Attrs,
        inputs: tuple[Tensor, ...],
        params: Mapping[str, Buffer | None],
    ) -> Tensor:
        """Append an operation and return its value."""

    def inside(self, module: object) -> AbstractContextManager[None]:
        """Name the operators recorded in the block after `module`."""


class Tensor:
    """The value of one operation of the network being traced.

    Attributes
    ----------
    shape : tuple of int
        Batch first, NCHW, at the planned batch size.
    """

    def __init__(self, recorder: Recorder, node: int, shape: tuple[int, ...]) -> None:
        self.recorder = recorder
        self.node = node
        self.shape = shape

    def __repr__(self) -> str:
        """Return the shape."""
        return f"Tensor{self.shape}"

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def size(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Return the shape, or one of its dimensions."""
        if dim is None:
            return self.shape
        place = as_integer(dim)
        if place is None or not -self.ndim <= place < self.ndim:
            raise ShapeError(
                f"size({dim!r:.80}) of a value of shape {self.shape}: it has dimensions 0 to "
                f"{self.ndim - 1}"
            )
        return self.shape[place]

    def record(
        self,
        owner: object | None,
        attrs: Attrs,
        params: Mapping[str, Buffer | None] | None = None,
        others: tuple[Tensor, ...] = (),
    ) -> Tensor:
        """Append the operation `attrs` on this tensor and `others`."""
        return self.recorder.record(owner, attrs, (self, *others), params or {})

    def __add__(self, other: object) -> Tensor:
        """Return the sum of two tensors of equal shape."""
        if not isinstance(other, Tensor):
            raise ShapeError(
                f"cannot add {type(other).__name__} to a value of shape {self.shape}: only the "
                "sum of two tensors of equal shape can be trained"
            )
        return self.record(None, AddAttrs(), others=(other,))

    __radd__ = __add__

    def relu(self) -> Tensor:
        """Return max(x, 0)."""
        return self.record(None, ReluAttrs())

    def tanh(self) -> Tensor:
        """Return tanh(x)."""
        return self.record(None, TanhAttrs())

    def sigmoid(self) -> Tensor:
        """Return 1 / (1 + e^-x)."""
        return self.record(None, ActivationAttrs(Activation.SIGMOID))

    def softmax(self, dim: int) -> Tensor:
        """Return shares that add up to 1 along a dimension."""
        return softmax(self, None, dim, log=False)

    def log_softmax(self, dim: int) -> Tensor:
        """Return the logarithm of `softmax(dim)`."""
        return softmax(self, None, dim, log=True)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Return the tensor with all dimensions but the batch made one; needs `start_dim` 1."""
        return flatten(self, None, start_dim, end_dim)

    def reshape(self, *shape: int | tuple[int, ...]) -> Tensor:
        """Return the tensor as (N, features), the only other shape that is available."""
        target = _resolved(self, shape)
        flat = (self.shape[0], prod(self.shape[1:]))
        if target == self.shape:
            return self
        if target != flat:
            raise ShapeError(
                f"cannot reshape {self.shape} to {target}: only flattening everything but the "
                f"batch, to {flat}, is available; use nn.Flatten() or .flatten(1)"
            )
        return self.record(None, FlattenAttrs())

    def view(self, *shape: int | tuple[int, ...]) -> Tensor:
        """Return `reshape(*shape)`."""
        return self.reshape(*shape)

    def __bool__(self) -> bool:
        """Refuse decisions that depend on values."""
        raise ShapeError(
            "forward() must not decide by the value of a tensor: a plan has one fixed list of "
            "steps; decide by shapes or by attributes of the module"
        )

    def __getattr__(self, name: str) -> object:
        """Say what is available instead of an unknown operation."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"Tensor has no '{name}'; available are {_AVAILABLE}")

    def _refuse(self, *_: object) -> Tensor:
        """Refuse an operator that has no operation yet."""
        raise ShapeError(
            f"this operator on a value of shape {self.shape} is not available; "
            f"available are {_AVAILABLE}"
        )

    __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __matmul__ = __rmatmul__ = __neg__ = __pow__ = __getitem__ = __iter__ = _refuse


def flatten(x: Tensor, owner: object | None, start_dim: int, end_dim: int) -> Tensor:
    """Record a flatten, refusing anything but (N, ...) to (N, product)."""
    last = as_integer(end_dim)
    if as_integer(start_dim) != 1 or last not in (-1, x.ndim - 1):
        raise ShapeError(
            f"flatten({start_dim!r:.80}, {end_dim!r:.80}) of a value of shape {x.shape} is not "
            "available: the batch dimension must stay and the rest become one; use start_dim=1, "
            "end_dim=-1"
        )
    return x if x.ndim == 2 else x.record(owner, FlattenAttrs())


def softmax(x: Tensor, owner: object | None, dim: int | None, log: bool) -> Tensor:
    """Record a softmax along `dim`; None is the dimension that torch takes then."""
    implied = 0 if x.ndim == 3 else 1
    place = implied if dim is None else as_integer(dim)
    if place is None:
        raise ShapeError(f"softmax needs a dimension, such as dim=1, got {dim!r:.80}")
    return x.record(owner, SoftmaxAttrs(place + x.ndim if place < 0 else place, log))


def _resolved(x: Tensor, shape: tuple[int | tuple[int, ...], ...]) -> tuple[int, ...]:
    """Return a requested shape with -1 replaced."""
    dims: list[int] = []
    for entry in shape:
        dims += entry if isinstance(entry, tuple | list) else (entry,)
    if any(as_integer(n) is None for n in dims):
        raise ShapeError(
            f"cannot reshape {x.shape} to {tuple(dims)!r:.80}: sizes are integers, -1 for the one "
            "that follows"
        )
    known = prod(n for n in dims if n != -1)
    total = prod(x.shape)
    if dims.count(-1) == 1 and known > 0 and total % known == 0:
        dims[dims.index(-1)] = total // known
    if min(dims, default=0) < 1 or prod(dims) != total:
        raise ShapeError(
            f"cannot reshape {x.shape} ({total} elements) to {tuple(dims)}; use .flatten(1)"
        )
    return tuple(dims)
