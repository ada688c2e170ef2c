"""One step of a recurrent network: its arithmetic, and the cells that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.graph import LinearAttrs
from armtrain.nn.arguments import Rule, positive, refuse_unlike
from armtrain.nn.module import Module
from armtrain.nn.parameter import Parameter, uniform_fan_in
from armtrain.nn.tensor import Tensor
from armtrain.values import truth

__all__ = [
    "GATED",
    "LONG_SHORT",
    "PLAIN",
    "GRUCell",
    "Gates",
    "LSTMCell",
    "RNNCell",
    "State",
    "add_parameters",
    "checked_state",
    "nonlinear_word",
    "parameters_of",
]

State = tuple[Tensor, ...]
"""What one step hands to the next, each (N, hidden_size): (h,), or (h, c) of an LSTM."""

Advance = Callable[[Tensor, Tensor, State], State]
"""The state after a step, of what the input and the last h give to the gates, and of the state."""


def _plain(word: str) -> Advance:
    """Return h' = f(x + h)."""

    def advance(x: Tensor, h: Tensor, state: State) -> State:
        return ((x + h).tanh() if word == "tanh" else (x + h).relu(),)

    return advance


def _long_short(x: Tensor, h: Tensor, state: State) -> State:
    """C' = f c + i g and h' = o tanh(c'): gates lie in the order i, f, g, o."""
    i, f, g, o = (x + h).chunk(4, 1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gated(x: Tensor, h: Tensor, state: State) -> State:
    """H' = (1 - z) n + z h with n = tanh(x_n + r h_n): gates lie in the order r, z, n."""
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, 1), h.chunk(3, 1)
    n = (xn + (xr + hr).sigmoid() * hn).tanh()
    return (n + (xz + hz).sigmoid() * (state[0] - n),)


@dataclass(frozen=True)
class Gates:
    """What one kind of recurrent network computes.

    Attributes
    ----------
    count : int
        Gates: rows of the weights are `count` times hidden_size.
    values : int
        Values of a state.
    advance : callable
    """

    count: int
    values: int
    advance: Advance

    def shapes(self, inputs: int, hidden: int, bias: bool) -> dict[str, tuple[int, ...]]:
        """Return torch's names of the parameters of a step, in its order, and their shapes."""
        rows = self.count * hidden
        shapes = {"weight_ih": (rows, inputs), "weight_hh": (rows, hidden)}
        return shapes | ({"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {})

    def project(self, x: Tensor, params: Mapping[str, Parameter | None], which: str) -> Tensor:
        """Return what `x` (N, ..., features) gives to the gates by the weight 'ih' or 'hh'."""
        names = {"weight": f"weight_{which}", "bias": f"bias_{which}"}
        return x.record(None, LinearAttrs(), {slot: params[name] for slot, name in names.items()})

    def start(self, gates: Tensor, hidden: int) -> State:
        """Return zeros, made of the (N, count hidden) of a step: a value is a value of a batch."""
        return (gates.narrow(1, 0, hidden) * 0.0,) * self.values

    def step(self, gates: Tensor, params: Mapping[str, Parameter | None], state: State) -> State:
        """Return the state after a step whose input gives `gates`."""
        return self.advance(gates, self.project(state[0], params, "hh"), state)


PLAIN = {word: Gates(1, 1, _plain(word)) for word in ("tanh", "relu")}
LONG_SHORT = Gates(4, 2, _long_short)
GATED = Gates(3, 1, _gated)


def nonlinear_word(what: str, value: object) -> str:
    """Return the name of an RNN's function."""
    if not isinstance(value, str) or value not in PLAIN:
        raise ArgumentError(f"{what} needs {' or '.join(map(repr, PLAIN))}, got {value!r:.80}")
    return value


def add_parameters(module: Module, shapes: Mapping[str, tuple[int, ...]], hidden: int) -> None:
    """Give a module parameters with torch's start: uniform in +-1/sqrt(hidden)."""
    for name, shape in shapes.items():
        module.register_parameter(name, Parameter(shape, uniform_fan_in(hidden)))


def parameters_of(
    module: Module, shapes: Mapping[str, tuple[int, ...]], suffix: str = ""
) -> dict[str, Parameter | None]:
    """Return the parameters of a step, None where there is none; refuse changed shapes."""
    found: dict[str, Parameter | None] = dict.fromkeys(("bias_ih", "bias_hh"))
    for name, shape in shapes.items():
        found[name] = getattr(module, name + suffix)
        refuse_unlike(type(module).__name__, name + suffix, found[name], shape)
    return found


def checked_state(what: str, state: object, count: int, shape: tuple[int, ...]) -> list[Tensor]:
    """Return `count` tensors of one shape."""
    given = list(state) if isinstance(state, tuple | list) else [state]
    tensors = [x for x in given if isinstance(x, Tensor) and x.shape == shape]
    if len(tensors) != len(given) or len(given) != count:
        raise ShapeError(
            f"{what} needs {count} tensors of shape {shape} in a tuple, got "
            f"{', '.join(map(repr, given)):.160}"
        )
    return tensors


class _Cell(Module):
    """One step of a recurrent network as a layer."""

    input_size: int
    hidden_size: int
    bias: bool
    _rules: ClassVar[Mapping[str, Rule]] = {
        "input_size": positive,
        "hidden_size": positive,
        "bias": truth,
    }

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self._set(input_size=input_size, hidden_size=hidden_size, bias=bias)
        add_parameters(self, self._shapes(), self.hidden_size)

    def gates(self) -> Gates:
        """Return what the cell computes."""
        raise NotImplementedError

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return names and shapes of the parameters."""
        return self.gates().shapes(self.input_size, self.hidden_size, self.bias)

    def _next(self, x: Tensor, state: object) -> State:
        """Return the state after a step from a given state, or from zeros."""
        what, gates, params = type(self).__name__, self.gates(), parameters_of(self, self._shapes())
        if x.ndim != 2:
            raise ShapeError(
                f"{what}: a step takes a value of shape (N, {self.input_size}), got {x.shape}; "
                "x[:, t] is a step of a sequence"
            )
        given = gates.project(x, params, "ih")
        if state is None:
            return gates.step(given, params, gates.start(given, self.hidden_size))
        shape = (x.shape[0], self.hidden_size)
        return gates.step(
            given, params, tuple(checked_state(f"{what}: hx", state, gates.values, shape))
        )

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Return h' of shape (N, hidden_size); `hx` is h, or None for zeros."""
        return self._next(input, hx)[0]

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.input_size}, {self.hidden_size}, bias={self.bias}"


class RNNCell(_Cell):
    """One step of `RNN`: h' = tanh(W_ih x + b_ih + W_hh h + b_hh).

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    nonlinearity : str
        'tanh' or 'relu'.
    """

    nonlinearity: str
    _rules: ClassVar[Mapping[str, Rule]] = {**_Cell._rules, "nonlinearity": nonlinear_word}

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh"
    ) -> None:
        Module.__init__(self)
        self._set(nonlinearity=nonlinearity)
        self._set(input_size=input_size, hidden_size=hidden_size, bias=bias)
        add_parameters(self, self._shapes(), self.hidden_size)

    def gates(self) -> Gates:
        """Return what the cell computes."""
        return PLAIN[self.nonlinearity]

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{super().extra_repr()}, nonlinearity={self.nonlinearity!r}"


class LSTMCell(_Cell):
    """One step of `LSTM`: from x and (h, c) to (h', c').

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    """

    def gates(self) -> Gates:
        """Return what the cell computes."""
        return LONG_SHORT

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Trace a step; the type says that there are two values."""
        return super().__call__(*args, **kwargs)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Return (h', c'), each of shape (N, hidden_size); `hx` is (h, c), or None for zeros."""
        return self._next(input, hx)


class GRUCell(_Cell):
    """One step of `GRU`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    """

    def gates(self) -> Gates:
        """Return what the cell computes."""
        return GATED
