"""Recurrent networks over sequences, unrolled: each step is nodes of the graph, weights shared.

The input's part of all steps is one matrix product; the rest is slices of it. A step that a mask
leaves out hands its state on, so that sequences of different lengths share a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from armtrain.errors import ShapeError
from armtrain.ir.graph import DropoutAttrs
from armtrain.nn.arguments import Rule, batch_leads, changed, positive, rate, refuse_unless
from armtrain.nn.module import Module
from armtrain.nn.recurrent_cells import (
    GATED,
    LONG_SHORT,
    PLAIN,
    Gates,
    State,
    add_parameters,
    checked_state,
    nonlinear_word,
    parameters_of,
)
from armtrain.nn.tensor import Tensor, cat, stack
from armtrain.values import truth

__all__ = ["GRU", "LSTM", "RNN"]

_MASK_WAY = (
    "a mask is 1 where a step counts and 0 where there is padding; give it as a feature of its "
    "own, as armtrain.data.pad_sequences makes it"
)


class _Recurrent(Module):
    """Layers of recurrent steps over (N, L, input_size), in one or both directions."""

    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    _rules: ClassVar[Mapping[str, Rule]] = {
        "input_size": positive,
        "hidden_size": positive,
        "num_layers": positive,
        "bias": truth,
        "batch_first": batch_leads,
        "dropout": lambda what, p: rate(what, p, 1.0),
        "bidirectional": truth,
    }

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._set(**arguments)
        for layer in range(self.num_layers):
            for suffix in self._suffixes(layer):
                shapes = {n + suffix: s for n, s in self._shapes(layer).items()}
                add_parameters(self, shapes, self.hidden_size)

    def gates(self) -> Gates:
        """Return what one step computes."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Return the arguments, those that are torch's defaults left out."""
        rest = {
            "num_layers": 1,
            "nonlinearity": "tanh",
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *changed(self, rest)])

    def _suffixes(self, layer: int) -> list[str]:
        """Return what torch appends to the names of a layer's parameters, per direction."""
        return [f"_l{layer}", f"_l{layer}_reverse"][: 1 + self.bidirectional]

    def _shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        """Return names and shapes of a layer's parameters in one direction."""
        inputs = self.hidden_size * (1 + self.bidirectional) if layer else self.input_size
        return self.gates().shapes(inputs, self.hidden_size, self.bias)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Trace the layers; the type says that there are several values."""
        return super().__call__(*args, **kwargs)

    def forward(self, input: Tensor, hx: Any = None, mask: Tensor | None = None) -> Any:
        """Return the outputs of the last layer and the last states.

        Parameters
        ----------
        input : Tensor
            (N, L, input_size).
        hx : tuple, optional
            First states as this returns the last ones; None is zeros.
        mask : Tensor, optional
            (N, L), 1 where a step counts and 0 where it is padding: there the state stays what it
            is, and the output is 0. Every sample gives what it would give alone, as with torch's
            packed sequences.

        Returns
        -------
        output : Tensor
            (N, L, hidden_size), or twice as many features in both directions.
        h_n : tuple of Tensor
            The state after the last step that counts, (N, hidden_size) per layer and direction,
            in the order of the first dimension of torch's; of an LSTM the pair (h_n, c_n).
        """
        what = type(self).__name__
        if input.ndim != 3:
            raise ShapeError(f"{what} needs sequences of shape (N, L, {self.input_size}), "
                             f"got {input.shape}")  # fmt: skip
        if mask is not None and mask.shape != input.shape[:2]:
            raise ShapeError(
                f"{what}: mask of shape {mask.shape} for sequences of shape {input.shape}; it "
                f"needs {input.shape[:2]}, a number per step"
            )
        if mask is not None:
            mask.recorder.as_mask(mask, "mask", _MASK_WAY)
        given = self._first_states(hx, input.shape[0])
        last: list[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for suffix in self._suffixes(layer):
                params = parameters_of(self, self._shapes(layer), suffix)
                start = given[len(last)] if given else None
                steps, state = self._scan(
                    self.gates().project(input, params, "ih"), params, start, mask, suffix
                )
                outputs.append(stack(steps, 1))
                last.append(state)
            input = outputs[0] if len(outputs) == 1 else cat(outputs, 2)
            if self.dropout and layer + 1 < self.num_layers:
                input = input.record(None, DropoutAttrs(self.dropout, self.training))
        output = input if mask is None else input * mask.unsqueeze(2)
        states = tuple(zip(*last, strict=True))
        return output, states if len(states) > 1 else states[0]

    def _first_states(self, hx: Any, samples: int) -> list[State]:
        """Return the given first state of every layer and direction, nothing if there is none."""
        if hx is None:
            return []
        what, values = f"{type(self).__name__}: hx", self.gates().values
        groups = [hx] if values == 1 else hx
        if not isinstance(groups, tuple | list) or len(groups) != values:
            raise ShapeError(f"{what} needs a pair (h, c), got {hx!r:.80}")
        count = self.num_layers * (1 + self.bidirectional)
        shape = (samples, self.hidden_size)
        return list(
            zip(*(checked_state(what, group, count, shape) for group in groups), strict=True)
        )

    def _scan(
        self,
        inputs: Tensor,
        params: Mapping[str, Any],
        state: State | None,
        mask: Tensor | None,
        suffix: str,
    ) -> tuple[Sequence[Tensor], State]:
        """Return h after every step, in the order of steps, and the last state."""
        gates, count = self.gates(), inputs.shape[1]
        turn = -1 if suffix.endswith("_reverse") else 1
        outputs = []
        for t in range(count)[::turn]:
            given = inputs[:, t]
            before = gates.start(given, self.hidden_size) if state is None else state
            after = gates.step(given, params, before)
            state = after if mask is None else _where(mask[:, t : t + 1], after, before)
            outputs.append(state[0])
        assert state is not None, "sequences have a step"
        return outputs[::turn], state


def _where(mask: Tensor, after: State, before: State) -> State:
    """Return `after` where the mask (N, 1) is 1, `before` where it is 0, bit for bit."""
    other = 1.0 - mask
    return tuple(a * mask + b * other for a, b in zip(after, before, strict=True))


class RNN(_Recurrent):
    """h_t = tanh(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh) over sequences.

    Parameters
    ----------
    input_size, hidden_size : int
    num_layers : int
        Each after the first works on the outputs of the one before.
    nonlinearity : str
        'tanh' or 'relu'.
    bias : bool
    batch_first : bool
        Must be True, unlike torch's default: sequences are (N, L, input_size).
    dropout : float
        Of the outputs of every layer but the last.
    bidirectional : bool
        Whether there is a second set of steps from the end to the start.
    """

    nonlinearity: str
    _rules: ClassVar[Mapping[str, Rule]] = {**_Recurrent._rules, "nonlinearity": nonlinear_word}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__(
            input_size=input_size,
            hidden_size=hidden_size,
            num_layers=num_layers,
            nonlinearity=nonlinearity,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
        )

    def gates(self) -> Gates:
        """Return what one step computes."""
        return PLAIN[self.nonlinearity]


class LSTM(_Recurrent):
    """Long short-term memory over sequences; c_t = f c_(t-1) + i g and h_t = o tanh(c_t).

    i, f and o are sigmoids, g a tanh of W_ih x_t + b_ih + W_hh h_(t-1) + b_hh, whose rows lie in
    the order i, f, g, o.

    Parameters
    ----------
    input_size, hidden_size : int
    num_layers : int
        Each after the first works on the outputs of the one before.
    bias : bool
    batch_first : bool
        Must be True, unlike torch's default: sequences are (N, L, input_size).
    dropout : float
        Of the outputs of every layer but the last.
    bidirectional : bool
        Whether there is a second set of steps from the end to the start.
    proj_size : int
        Only 0 is available.
    """

    proj_size: int
    _rules: ClassVar[Mapping[str, Rule]] = {
        **_Recurrent._rules,
        "proj_size": lambda what, value: refuse_unless(what, value, 0),
    }

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
    ) -> None:
        super().__init__(
            input_size=input_size,
            hidden_size=hidden_size,
            num_layers=num_layers,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            proj_size=proj_size,
        )

    def gates(self) -> Gates:
        """Return what one step computes."""
        return LONG_SHORT


class GRU(_Recurrent):
    """Gated recurrent units over sequences; h_t = (1 - z) n + z h_(t-1).

    r and z are sigmoids of W_ih x_t + b_ih + W_hh h_(t-1) + b_hh, n is the tanh of
    W_in x_t + b_in + r (W_hn h_(t-1) + b_hn); rows lie in the order r, z, n.

    Parameters
    ----------
    input_size, hidden_size : int
    num_layers : int
        Each after the first works on the outputs of the one before.
    bias : bool
    batch_first : bool
        Must be True, unlike torch's default: sequences are (N, L, input_size).
    dropout : float
        Of the outputs of every layer but the last.
    bidirectional : bool
        Whether there is a second set of steps from the end to the start.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__(
            input_size=input_size,
            hidden_size=hidden_size,
            num_layers=num_layers,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
        )

    def gates(self) -> Gates:
        """Return what one step computes."""
        return GATED
