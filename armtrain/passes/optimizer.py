"""Optimiser steps, their state, parameter groups, clipping by the global norm and by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from armtrain.dtypes import DType
from armtrain.errors import ArgumentError
from armtrain.ir.graph import Graph
from armtrain.ir.ops import UPDATE_OF, OpCode
from armtrain.ir.program import Init, InitKind, Phase, Role, Step, TensorId
from armtrain.limits import MAX_FLOAT, MIN_FLOAT
from armtrain.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop
from armtrain.optim.derived import plain
from armtrain.passes.blocks import BlockProduct, block_rows
from armtrain.passes.emit import Emitter, Place
from armtrain.passes.select import as_patterns, select
from armtrain.values import real, what_was_given

__all__ = [
    "Clipping",
    "NormClipping",
    "Updates",
    "ValueClipping",
    "check_clipping",
    "check_optimizer",
    "optimizer_of_params",
    "updated_by_rows",
]

ParamGroups = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class _State:
    """One state tensor of an update.

    Attributes
    ----------
    slot, word : str
        Operand of the step; what follows the parameter's name.
    when : str
        Hyper-parameter without which (0 or False) there is none; '' for always.
    start : str
        Hyper-parameter that it starts with; '' for 0.
    """

    slot: str
    word: str
    when: str = ""
    start: str = ""


_MOMENTUM = _State("momentum", "momentum", when="momentum")
_MOMENTS = (_State("m", "exp_avg"), _State("v", "exp_avg_sq"))
_UPDATES: dict[type[Optimizer], tuple[OpCode, tuple[_State, ...]]] = {
    SGD: (OpCode.SGD_STEP, (_MOMENTUM,)),
    Adam: (OpCode.ADAM_STEP, _MOMENTS),
    AdamW: (OpCode.ADAMW_STEP, _MOMENTS),
    RMSprop: (
        OpCode.RMSPROP_STEP,
        (
            _State("square_avg", "square_avg"),
            _State("grad_avg", "grad_avg", when="centered"),
            _MOMENTUM,
        ),
    ),
    Adagrad: (
        OpCode.ADAGRAD_STEP,
        (_State("sum", "sum", start="initial_accumulator_value"),),
    ),
}
"""Optimiser -> its step and the state tensors of a parameter."""


_UPDATES_OF_ROWS: dict[type[Optimizer], OpCode] = {
    SGD: OpCode.EMBEDDING_SGD_STEP,
    Adagrad: OpCode.EMBEDDING_ADAGRAD_STEP,
}
"""Optimiser -> the same step of some rows of a table."""


_UPDATES_BY_BLOCKS = {update: code for code, update in UPDATE_OF.items()}
"""Step -> the one that makes the gradient, too, block by block."""


def _leaves_the_rest(optimizer: Optimizer) -> bool:
    """Whether weights whose gradient is 0, and their state, keep their bits."""
    hyper = dict(optimizer.items())
    moves = hyper.get("momentum", 0.0) or hyper.get("weight_decay", 0.0)
    return type(optimizer) in _UPDATES_OF_ROWS and not moves and hyper.get("eps", 1.0) > 0.0


def updated_by_rows(optimizers: Mapping[str, Optimizer]) -> frozenset[str]:
    """Return the parameters whose update may leave out rows without a gradient."""
    return frozenset(name for name, kind in optimizers.items() if _leaves_the_rest(kind))


def check_optimizer(optimizer: object) -> Optimizer:
    """Return `optimizer` if it is one, a subclass without code of its own as its class."""
    known: Optimizer | None = plain(optimizer, tuple(_UPDATES), "optim")
    if known is None:
        names = [f"optim.{kind.__name__}(...)" for kind in _UPDATES]
        parser, call = "optim.parse_optimizer makes an optimizer of a text", "optim.{}(lr=0.01)"
        raise ArgumentError(
            f"optimizer needs {', '.join(names[:-1])} or {names[-1]}, got "
            f"{what_was_given(optimizer, parser, call)}"
        )
    return known


def check_clipping(
    clip_norm: float | None, clip_value: float | None
) -> tuple[float | None, float | None]:
    """Return the largest allowed norm and the largest allowed value, None for no clipping."""
    if clip_norm is not None and clip_value is not None:
        raise ArgumentError(
            f"clip_norm={clip_norm!r} and clip_value={clip_value!r} were both given: gradients are "
            "clipped by their common norm or each by value, give one of them"
        )
    if clip_norm is not None:
        what = "clip_norm, the largest norm of all gradients or None,"
        clip_norm = real(what, clip_norm, MIN_FLOAT, MAX_FLOAT)
    if clip_value is not None:
        what = "clip_value, the largest absolute value in a gradient or None,"
        clip_value = real(what, clip_value, MIN_FLOAT, MAX_FLOAT)
    return clip_norm, clip_value


def optimizer_of_params(
    graph: Graph, optimizer: Optimizer, groups: ParamGroups | None
) -> dict[str, Optimizer]:
    """Return per trained parameter the optimiser with its group's options.

    Parameters
    ----------
    graph : Graph
    optimizer : Optimizer
        Options of parameters in no group.
    groups : sequence of mapping, optional
        'params': a pattern or list of names; the other keys replace hyper-parameters.

    Raises
    ------
    ArgumentError
        A pattern fits nothing, a parameter is in two groups, or an option is unknown.
    """
    names = [p.name for p in graph.params if not p.buffer]
    chosen: dict[str, Optimizer] = {}
    for index, group in enumerate(_checked_groups(groups)):
        what, options = f"param_groups[{index}]", dict(group)
        if "params" not in options:
            raise ArgumentError(f"{what} needs 'params': a pattern or a list of parameter names")
        members = select(what, names, as_patterns(options.pop("params")))
        twice = sorted(members & chosen.keys())
        if twice:
            raise ArgumentError(f"{what}: '{twice[0]}' is already in an earlier group")
        try:
            own = optimizer.with_options(**options)
        except ValueError as error:
            raise ArgumentError(f"{what}: {error}") from None
        chosen.update(dict.fromkeys(sorted(members), own))
    return {p.name: chosen.get(p.name, optimizer) for p in graph.params if p.trained}


def _checked_groups(groups: object) -> Sequence[Mapping[str, Any]]:
    """Return the groups if they are a list of mappings with text as keys."""
    if groups is None:
        return ()
    listed = groups if isinstance(groups, list | tuple) else (None,)
    for index, group in enumerate(listed):
        if not isinstance(group, Mapping) or not all(isinstance(key, str) for key in group):
            got = f"param_groups[{index}]={group!r:.80}" if listed is groups else f"{groups!r:.80}"
            raise ArgumentError(
                "param_groups needs a list of dicts, such as [{'params': 'fc.*', 'lr': 0.001}], "
                f"got {got}"
            )
    return listed


class Clipping(Protocol):
    """What clipping adds: a step after each gradient, one after all, a factor for the updates."""

    @property
    def scale(self) -> TensorId | None:
        """Return the factor of the gradients."""

    def each(self, layer: str, param: str, gradient: TensorId) -> Step:
        """Return the step that follows a parameter's complete gradient."""

    def finish(self) -> Step | None:
        """Return the step that waits for all gradients; updates wait for it."""


class ValueClipping:
    """Steps that bound every value of a gradient, at once, so that updates need not wait."""

    scale: TensorId | None = None

    def __init__(self, emitter: Emitter, limit: float) -> None:
        self._emitter = emitter
        self._limit = limit

    def each(self, layer: str, param: str, gradient: TensorId) -> Step:
        """Return the step that clips a gradient in place."""
        place = Place(Phase.TRAIN, layer, "CG")
        return self._emitter.step(OpCode.CLIP_VALUE, place, {"limit": self._limit}, g=gradient)

    def finish(self) -> None:
        """Nothing waits for all gradients."""


class NormClipping:
    """Steps that measure the norm of all gradients and the factor that bounds it."""

    def __init__(self, emitter: Emitter, max_norm: float, params: Sequence[str]) -> None:
        self._emitter = emitter
        self._max_norm = max_norm
        self._index = {name: index for index, name in enumerate(params)}
        self._squares = emitter.tensor("clip.sumsq", Role.METRIC, (len(params),), dtype=DType.F64)
        self.scale = emitter.tensor("clip.scale", Role.METRIC, (1,))

    def each(self, layer: str, param: str, gradient: TensorId) -> Step:
        """Return the step that sums a gradient's squares."""
        place, attrs = Place(Phase.TRAIN, layer, "CG"), {"index": self._index[param]}
        op = OpCode.GRAD_SUMSQ
        return self._emitter.step(op, place, attrs, g=gradient, acc=self._squares)

    def finish(self) -> Step:
        """Return the step that computes the factor from all sums."""
        place, attrs = Place(Phase.TRAIN, "clip", "AG"), {"max_norm": self._max_norm}
        op = OpCode.CLIP_SCALE
        return self._emitter.step(op, place, attrs, acc=self._squares, scale=self.scale)


class Updates:
    """Makes the optimiser step of every trained parameter, with its state."""

    def __init__(
        self, emitter: Emitter, weights: dict[str, TensorId], optimizers: dict[str, Optimizer]
    ) -> None:
        self._emitter = emitter
        self._weights = weights
        self._optimizers = optimizers
        # State tensors follow the parameters' order, not the backward order.
        self._states = {
            name: {
                state.slot: self._state(name, state.word, hyper.get(state.start, 0.0))
                for state in _UPDATES[type(optimizer)][1]
                if state.when == "" or hyper[state.when]
            }
            for name, optimizer in optimizers.items()
            for hyper in (dict(optimizer.items()),)
        }

    def _state(self, param: str, word: str, start: float) -> TensorId:
        """Make a state tensor like the parameter, filled with one value."""
        like = self._emitter.tensors[self._weights[param]]
        init, name = Init(InitKind.CONSTANT, start), f"{param}/{word}"
        return self._emitter.tensor(name, Role.STATE, like.dims, layout=like.layout, init=init)

    def step(
        self,
        layer: str,
        param: str,
        gradient: TensorId,
        scale: TensorId | None,
        indices: TensorId | None,
    ) -> Step:
        """Return the step that updates `param`, or the rows of it that `indices` names."""
        place, optimizer = Place(Phase.TRAIN, layer, "AG"), self._optimizers[param]
        slots = {"w": self._weights[param], "scale": scale}
        if indices is None:
            slots["g"], (code, _) = gradient, _UPDATES[type(optimizer)]
        else:
            slots |= {"rows": gradient, "x": indices}
            code = _UPDATES_OF_ROWS[type(optimizer)]
        slots |= self._states[param]
        return self._emitter.step(code, place, dict(optimizer.items()), **slots)

    def by_blocks(self, layer: str, product: BlockProduct, limit: float) -> Step:
        """Return the step that makes a gradient block by block and updates with it.

        Parameters
        ----------
        layer : str
        product : BlockProduct
        limit : float
            Largest absolute value of the gradient, 0.0 for any.
        """
        weight, optimizer = self._weights[product.param], self._optimizers[product.param]
        dims = self._emitter.tensors[weight].dims
        block = (block_rows(dims), dims[-1])
        slots = {"w": weight, "x": product.x, "dy": product.dy, **self._states[product.param]}
        slots["g"] = self._emitter.tensor(f"{product.param}.grad", Role.GRADIENT, block)
        values = {**dict(optimizer.items()), "limit": limit, **product.attrs}
        code = _UPDATES_BY_BLOCKS[_UPDATES[type(optimizer)][0]]
        return self._emitter.step(code, Place(Phase.TRAIN, layer, "AG"), values, **slots)
