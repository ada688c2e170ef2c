"""Descriptions of a network's persistent arrays. They hold no data."""

from __future__ import annotations

from armtrain.errors import ArgumentError
from armtrain.ir.program import Init, InitKind
from armtrain.limits import MAX_DIM
from armtrain.values import as_tuple, integer, truth

__all__ = ["Buffer", "Parameter", "constant", "uniform_fan_in", "uniform_glorot"]


def constant(value: float) -> Init:
    """Return the initialiser that fills with `value`."""
    return Init(InitKind.CONSTANT, value)


def uniform_fan_in(fan_in: int) -> Init:
    """Return torch's default initialiser of layers: uniform in +-1/sqrt(fan_in).

    Source: `torch.nn.init.kaiming_uniform_` with a = sqrt(5), whose bound is
    sqrt(6 / ((1 + 5) fan_in)).
    """
    bound = max(1, fan_in) ** -0.5
    return Init(InitKind.UNIFORM, -bound, bound)


def uniform_glorot(fan_in: int, fan_out: int) -> Init:
    """Return torch's `xavier_uniform_`: uniform in +-sqrt(6 / (fan_in + fan_out))."""
    bound = (6.0 / max(1, fan_in + fan_out)) ** 0.5
    return Init(InitKind.UNIFORM, -bound, bound)


class Buffer:
    """A saved array that no optimiser updates, such as a running mean.

    Parameters
    ----------
    shape : tuple of int
    init : Init
        Value at the start of a new run.
    """

    def __init__(self, shape: tuple[int, ...], init: Init) -> None:
        self.shape = _checked_shape(shape)
        if not isinstance(init, Init):
            raise ArgumentError(
                f"{type(self).__name__}: init needs an initialiser, as another one's `.init`, got "
                f"{init!r:.80}"
            )
        self.init = init

    def __repr__(self) -> str:
        """Return the class and the shape."""
        return f"{type(self).__name__}{self.shape}"


class Parameter(Buffer):
    """A saved array that the optimiser updates while `requires_grad` is true.

    Parameters
    ----------
    shape : tuple of int
    init : Init
        Value at the start of a new run.
    requires_grad : bool
        False freezes it: no gradient, no optimiser state, never written.
    """

    def __init__(self, shape: tuple[int, ...], init: Init, requires_grad: bool = True) -> None:
        super().__init__(shape, init)
        self.requires_grad = truth("requires_grad", requires_grad)

    def requires_grad_(self, requires_grad: bool = True) -> Parameter:
        """Set `requires_grad`, whether the optimiser updates it, and return it."""
        self.requires_grad = truth("requires_grad", requires_grad)
        return self


def _checked_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return `shape` as a tuple of positive ints."""
    given = as_tuple(shape)
    dims = (shape,) if given is None else given
    return tuple(integer("every dimension of a parameter", n, 1, MAX_DIM) for n in dims)
