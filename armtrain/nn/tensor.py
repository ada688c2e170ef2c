"""Symbolic tensors: what `forward` receives instead of numbers while a network is traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from math import prod
from typing import TYPE_CHECKING, Protocol

from armtrain.errors import ShapeError
from armtrain.ir.arithmetic import Combine, Function
from armtrain.ir.graph import (
    Activation,
    ActivationAttrs,
    Attrs,
    CatAttrs,
    FlattenAttrs,
    FunctionAttrs,
    PermuteAttrs,
    ReluAttrs,
    ReshapeAttrs,
    SliceAttrs,
    SoftmaxAttrs,
    TanhAttrs,
)
from armtrain.limits import MAX_DIM
from armtrain.nn.operators import combined, power, product, reduced
from armtrain.nn.shaping import checked_dim, flat_list, indexed, resolved_shape, sizes_of_parts
from armtrain.values import as_integer, integer

if TYPE_CHECKING:
    from armtrain.nn.parameter import Buffer

__all__ = ["Recorder", "Tensor", "cat", "flatten", "stack"]

_AVAILABLE = (
    "+, -, *, /, **, @, sum, mean, sqrt, exp, log, abs, reshape, view, flatten, unflatten, "
    "squeeze, unsqueeze, permute, transpose, slices, narrow, select, split, chunk, unbind, relu, "
    "tanh, sigmoid, softmax, log_softmax and the layers of armtrain.nn"
)


class Recorder(Protocol):
    """What writes down operations; `owner` is the layer, or None for an operator.

    Attributes
    ----------
    batch : int
        Planned samples.
    """

    batch: int

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

    def as_mask(self, mask: Tensor, name: str, way: str) -> None:
        """Remember an argument that is numbers from 0 to 1, and what to do about others."""


class Tensor:
    """The value of one operation of the network being traced.

    Attributes
    ----------
    shape : tuple of int
        At the planned batch size; the first dimension is the batch, or rows of its samples.
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
        """Return the sum with a tensor, a parameter or a number."""
        return combined(self, other, Combine.ADD)

    __radd__ = add = __add__

    def __sub__(self, other: object) -> Tensor:
        """Return the difference."""
        return combined(self, other, Combine.SUB)

    sub = __sub__

    def __rsub__(self, other: object) -> Tensor:
        """Return `other` minus the tensor."""
        return combined(self, other, Combine.RSUB)

    def __mul__(self, other: object) -> Tensor:
        """Return the product, element by element."""
        return combined(self, other, Combine.MUL)

    __rmul__ = mul = __mul__

    def __truediv__(self, other: object) -> Tensor:
        """Return the quotient."""
        return combined(self, other, Combine.DIV)

    div = __truediv__

    def __rtruediv__(self, other: object) -> Tensor:
        """Return `other` over the tensor."""
        return combined(self, other, Combine.RDIV)

    def __neg__(self) -> Tensor:
        """Return the tensor times -1."""
        return self * -1.0

    neg = __neg__

    def __pow__(self, exponent: object) -> Tensor:
        """Return the tensor to the power of a whole or half number."""
        return power(self, exponent)

    pow = __pow__

    def __matmul__(self, other: object) -> Tensor:
        """Return the products of the matrices in the last two dimensions."""
        return product(self, other)

    matmul = bmm = __matmul__

    def square(self) -> Tensor:
        """Return the square."""
        return power(self, 2)

    def sqrt(self) -> Tensor:
        """Return the square root."""
        return power(self, 0.5)

    def rsqrt(self) -> Tensor:
        """Return 1 over the square root."""
        return power(self, -0.5)

    def reciprocal(self) -> Tensor:
        """Return 1 over the tensor."""
        return power(self, -1)

    def exp(self) -> Tensor:
        """Return e^x."""
        return self.record(None, FunctionAttrs(Function.EXP))

    def log(self) -> Tensor:
        """Return the natural logarithm."""
        return self.record(None, FunctionAttrs(Function.LOG))

    def abs(self) -> Tensor:
        """Return |x|."""
        return self.record(None, FunctionAttrs(Function.ABS))

    __abs__ = abs

    def sum(self, dim: int | tuple[int, ...] | None = None, keepdim: bool = False) -> Tensor:
        """Return the sum over dimensions behind the batch."""
        return reduced(self, "sum", dim, keepdim, mean=False)

    def mean(self, dim: int | tuple[int, ...] | None = None, keepdim: bool = False) -> Tensor:
        """Return the mean over dimensions behind the batch."""
        return reduced(self, "mean", dim, keepdim, mean=True)

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
        """Return the tensor with dimensions `start_dim` to `end_dim` made one; 0 is the batch."""
        return flatten(self, None, start_dim, end_dim)

    def reshape(self, *shape: int | tuple[int, ...]) -> Tensor:
        """Return the elements, in torch's order, under another shape; the batch stays first."""
        return reshape(self, resolved_shape(self.shape, flat_list(shape), self.recorder.batch))

    def view(self, *shape: int | tuple[int, ...]) -> Tensor:
        """Return `reshape(*shape)`."""
        return self.reshape(*shape)

    def contiguous(self) -> Tensor:
        """Return the tensor: where its elements lie is the compiler's choice."""
        return self

    def unflatten(self, dim: int, sizes: tuple[int, ...]) -> Tensor:
        """Return the tensor with a dimension split into several."""
        place = checked_dim("unflatten", dim, self.shape, first=0)
        return self.reshape(*self.shape[:place], *flat_list((sizes,)), *self.shape[place + 1 :])  # type: ignore[arg-type]

    def squeeze(self, dim: int | tuple[int, ...] | None = None) -> Tensor:
        """Return the tensor without dimensions of size 1, all but the batch or those named."""
        named = range(1, self.ndim) if dim is None else flat_list((dim,))
        gone = {checked_dim("squeeze", d, self.shape) for d in named}
        shape = tuple(n for d, n in enumerate(self.shape) if d not in gone or n != 1)
        return reshape(self, resolved_shape(self.shape, shape, self.recorder.batch))

    def unsqueeze(self, dim: int) -> Tensor:
        """Return the tensor with a dimension of size 1 before dimension `dim`."""
        place = checked_dim("unsqueeze", dim, self.shape, more=1)
        return self.reshape(*self.shape[:place], 1, *self.shape[place:])

    def permute(self, *dims: int | tuple[int, ...]) -> Tensor:
        """Return the tensor with its dimensions in another order; the batch stays first."""
        order = [checked_dim("permute", d, self.shape, first=0) for d in flat_list(dims)]
        if order == list(range(self.ndim)):
            return self
        return self.record(None, PermuteAttrs(tuple(order)))

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Return the tensor with two dimensions swapped."""
        a, b = (checked_dim("transpose", d, self.shape) for d in (dim0, dim1))
        order = list(range(self.ndim))
        order[a], order[b] = b, a
        return self.permute(*order)

    swapaxes = swapdims = transpose

    @property
    def mT(self) -> Tensor:  # noqa: N802 (torch's name)
        """The tensor with its last two dimensions swapped."""
        return self.transpose(-2, -1)

    def __getitem__(self, index: object) -> Tensor:
        """Return a part: integers, slices with a step above 0, None and `...`, the batch whole."""
        slices, shape = indexed(self.shape, index)
        part = self
        for attrs in slices:
            part = part.record(None, attrs)
        return reshape(part, resolved_shape(part.shape, shape, self.recorder.batch))

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """Return `length` places of a dimension from `start` on."""
        place = checked_dim("narrow", dim, self.shape)
        return self._part("narrow", place, start, length)

    def _part(self, what: str, dim: int, start: int, length: int) -> Tensor:
        """Return places [start, start + length) of a dimension."""
        size, first, count = self.shape[dim], as_integer(start), as_integer(length)
        if first is None or count is None or not 0 <= first < first + count <= size:
            raise ShapeError(
                f"{what}: {length!r:.80} places from {start!r:.80} on of dimension {dim} of a "
                f"value of shape {self.shape} are not there"
            )
        return self if count == size else self.record(None, SliceAttrs(dim, first, count))

    def select(self, dim: int, index: int) -> Tensor:
        """Return one place of a dimension, without it."""
        place = checked_dim("select", dim, self.shape)
        return self[(*[slice(None)] * place, index)]

    def split(
        self, split_size_or_sections: int | Sequence[int], dim: int = 0
    ) -> tuple[Tensor, ...]:
        """Return parts of a given size (the last one may be smaller), or of given sizes."""
        place = checked_dim("split", dim, self.shape)
        sizes = sizes_of_parts("split", split_size_or_sections, self.shape[place])
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        return tuple(self._part("split", place, s, n) for s, n in zip(starts, sizes, strict=True))

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """Return at most `chunks` parts of equal size, but the last."""
        count = integer("chunk: chunks", chunks, 1, MAX_DIM)
        place = checked_dim("chunk", dim, self.shape)
        return self.split(-(-self.shape[place] // count), place)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Return every place of a dimension, without it."""
        place = checked_dim("unbind", dim, self.shape)
        return tuple(self.select(place, i) for i in range(self.shape[place]))

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

    __rmatmul__ = __rpow__ = __floordiv__ = __mod__ = __iter__ = _refuse


def reshape(x: Tensor, shape: tuple[int, ...], owner: object | None = None) -> Tensor:
    """Record a change of shape, if it is one."""
    if shape == x.shape:
        return x
    flat = shape == (x.shape[0], prod(x.shape[1:])) and x.shape[0] == x.recorder.batch
    return x.record(owner, FlattenAttrs() if flat else ReshapeAttrs(shape))


def flatten(x: Tensor, owner: object | None, start_dim: int, end_dim: int) -> Tensor:
    """Record a flatten; the batch stays first."""
    last = checked_dim("flatten", end_dim, x.shape, first=0)
    first = checked_dim("flatten", start_dim, x.shape, first=0)
    if first > last or (first == 0 and last == x.ndim - 1 > 0):
        raise ShapeError(
            f"flatten({start_dim!r:.80}, {end_dim!r:.80}) of a value of shape {x.shape} is not "
            "available: samples of a batch stay apart; use start_dim=1, end_dim=-1"
        )
    joined = (*x.shape[:first], prod(x.shape[first : last + 1]), *x.shape[last + 1 :])
    return reshape(x, resolved_shape(x.shape, joined, x.recorder.batch), owner)


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return tensors one after the other along a dimension behind the batch."""
    parts = _tensors("cat", tensors)
    place = checked_dim("cat", dim, parts[0].shape)
    return parts[0].record(None, CatAttrs(place), others=tuple(parts[1:]))


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return tensors of one shape one after the other along a new dimension behind the batch."""
    parts = _tensors("stack", tensors)
    place = checked_dim("stack", dim, parts[0].shape, more=1)
    return cat([part.unsqueeze(place) for part in parts], place)


def _tensors(what: str, given: object) -> list[Tensor]:
    """Return the tensors of a list of at least one."""
    parts = list(given) if isinstance(given, tuple | list) else []
    if not parts or not all(isinstance(part, Tensor) for part in parts):
        kinds = sorted({type(part).__name__ for part in parts}) or [type(given).__name__]
        raise ShapeError(f"{what} joins a list of tensors of the network, got {', '.join(kinds)}")
    return parts


def softmax(x: Tensor, owner: object | None, dim: int | None, log: bool) -> Tensor:
    """Record a softmax along `dim`; None is the dimension that torch takes then."""
    place = (0 if x.ndim == 3 else 1) if dim is None else as_integer(dim)
    if place is None:
        raise ShapeError(f"softmax needs a dimension, such as dim=1, got {dim!r:.80}")
    return x.record(owner, SoftmaxAttrs(place + x.ndim if place < 0 else place, log))
