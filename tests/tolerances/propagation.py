"""How far float32 may be from double after many operations: each one's bound, handed on.

Beside every value of a plan lies its bound, at the same address. An operation's result is off by
what its own arithmetic does (`bounds`), and by what each element that it reads, moved by its
bound, moves it: to first order, as everything in these bounds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from armtrain.ir.ops import Access, OpCode, spec_of
from armtrain.ir.program import Phase, Role, Step, Tensor
from armtrain.planfile.data import PlanData
from armtrain.runtime.reference import ReferenceExecutor
from armtrain.runtime.reference.arena import Array, CellArena
from armtrain.runtime.reference.call import Call, Outputs
from armtrain.runtime.reference.layout import dims_of, planned_count, to_arena, to_user
from armtrain.runtime.reference.table import FUNCTIONS
from tests.tolerances import activations, bounds

__all__ = ["BoundingExecutor"]


_SUMS = ("LINEAR", "CONV", "MATMUL")
"""Beginnings of names: sums of products, linear in each operand."""
_ONE_TO_ONE = frozenset(
    {
        *activations.BOUNDS,
        *(OpCode.RELU_FWD, OpCode.RELU_GRAD, OpCode.TANH_FWD, OpCode.TANH_GRAD, OpCode.ADD),
        *(OpCode.COMBINE, OpCode.AFFINE, OpCode.POWER, OpCode.FUNCTION, OpCode.EXPAND),
        *(OpCode.SLICE, OpCode.PLACE, OpCode.PERMUTE),
        *(OpCode.NHWC_TO_NCHW, OpCode.NCHW_TO_NHWC),
    }
)
"""A result's element comes of one element of each operand: all of them move at once."""


def _moves(op: OpCode, off: Array) -> list[Array]:
    """Return the moves of an operand whose effects add up."""
    if op in _ONE_TO_ONE or op.name.startswith(_SUMS):
        return [off]
    single = []
    for place in zip(*np.nonzero(off), strict=True):
        single.append(np.zeros(off.shape))
        single[-1][place] = off[place]
    return single


def moved_by(op: OpCode, call: Call, exact: Outputs, name: str, off: Array) -> Outputs:
    """Return how far one operand's elements, each moved by its bound, move the results."""
    total = {key: np.zeros(value.shape) for key, value in exact.items()}
    if not off.any():
        return total
    if op.name.startswith(_SUMS):
        call = replace(call, values={key: np.abs(v) for key, v in call.values.items()})
        exact = FUNCTIONS[op](call)
    for move in _moves(op, off):
        moved = call.values | {name: call[name] + move}
        for key, value in FUNCTIONS[op](replace(call, values=moved)).items():
            total[key] += np.abs(value - exact[key])
    return total


class BoundingExecutor(ReferenceExecutor):
    """The reference with a bound of float32 beside each value.

    Attributes
    ----------
    off : dict
        Bounds of what prediction returned last, `y`, of the last `loss`, and of the last step's
        gradients by name.
    """

    def __init__(self, plan: PlanData) -> None:
        self._bounds = CellArena(plan.arena_bytes)
        self._bounds.cells[:] = 0.0
        self.off: dict[str, Array] = {}
        super().__init__(plan)

    def off_of(self, name: str) -> Array:
        """Return the bound of a tensor in the user's layout, at the planned batch."""
        tensor = self._by_name[name]
        count = planned_count(tensor)
        return to_user(tensor, self._bound(tensor, count), count)

    def write(self, name: str, values: ArrayLike) -> None:
        """Set a tensor; float32 holds each number but for one rounding, if at all."""
        super().write(name, values)
        exact = to_arena(self._by_name[name], np.asarray(values, np.float64), 0)
        self._hand_on(self._by_name[name], np.abs(exact - exact.astype(np.float32)))

    def _feed(self, phase: Phase, x: ArrayLike, target: ArrayLike | None) -> int:
        """Write a batch, of which float32 holds each number but for one rounding, if at all."""
        n = super()._feed(phase, x, target)
        for role in (Role.INPUT, Role.TARGET):
            tensor = self._first_used(phase, role)
            if tensor is not None:
                exact = self._load(tensor, n)
                self._hand_on(tensor, np.abs(exact - exact.astype(np.float32)))
        return n

    def predict_step(self, x: ArrayLike) -> Array:
        """Return the network's output for a batch."""
        result = super().predict_step(x)
        (output,) = (t for t in self._program.tensors if t.role == Role.OUTPUT)
        self.off["y"] = to_user(output, self._bound(output, len(result)), len(result))
        return result

    def _run_step(self, step: Step, n: int) -> None:
        """Run one step, and bound what it writes."""
        operands = self._operands(step)
        reads = [o for o in operands if o.access & Access.READ]
        values = {o.name: self._load(o.tensor, n) for o in reads}
        offs = {o.name: self._bound(o.tensor, n) for o in reads}
        before = set(self.gradients)
        super()._run_step(step, n)
        for name in self.gradients.keys() - before:  # an update: the gradient is what counts
            self.off[name] = to_user(self._by_name[name], offs["g"], 0)
            return
        slots = spec_of(step.op).slots(len(step.attrs))
        attrs = {slot.name: v for slot, v in zip(slots, step.attrs, strict=True)}
        shapes = {o.name: dims_of(o.tensor, n) for o in operands}
        call = Call(values, shapes, attrs, self._seed, self.step)
        exact = FUNCTIONS[step.op](call)
        total = bounds(step.op, call, exact)
        for name, off in offs.items():
            for key, more in moved_by(step.op, call, exact, name, off).items():
                total[key] = total[key] + more
        for operand in operands:
            if operand.access & Access.WRITE:
                self._hand_on(operand.tensor, total[operand.name])
                if operand.tensor.role == Role.METRIC:
                    self.off[operand.name] = total[operand.name]

    def _bound(self, tensor: Tensor, n: int) -> Array:
        """Return the bound of a tensor in arena layout."""
        offset = self._offsets[tensor.id]
        return self._bounds.read(offset, dims_of(tensor, n), tensor.dtype.itemsize)

    def _hand_on(self, tensor: Tensor, off: Array) -> None:
        """Keep the bound of a tensor."""
        self._bounds.write(self._offsets[tensor.id], tensor.dtype.itemsize, off)
