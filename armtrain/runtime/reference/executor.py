"""The step loop of the reference: reads, computes in double, writes, all on planned addresses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from armtrain.errors import ShapeError
from armtrain.ir.ops import UPDATE_OF, Access, OpCode, spec_of
from armtrain.ir.program import (
    PERSISTENT_ROLES,
    Init,
    InitKind,
    Phase,
    Role,
    Step,
    Tensor,
)
from armtrain.planfile.data import PlanData
from armtrain.runtime.reference.arena import Array, CellArena
from armtrain.runtime.reference.blocks import whole_gradient
from armtrain.runtime.reference.call import Call
from armtrain.runtime.reference.embedding import whole_table
from armtrain.runtime.reference.layout import dims_of, planned_count, to_arena, to_user
from armtrain.runtime.reference.random import normal, stream_of_name, uniform
from armtrain.runtime.reference.table import FUNCTIONS

__all__ = ["ReferenceExecutor"]

_UPDATES = frozenset(
    {
        *(OpCode.SGD_STEP, OpCode.ADAM_STEP, OpCode.ADAMW_STEP),
        *(OpCode.RMSPROP_STEP, OpCode.ADAGRAD_STEP),
        *(OpCode.EMBEDDING_SGD_STEP, OpCode.EMBEDDING_ADAGRAD_STEP),
    }
)


@dataclass(frozen=True)
class _Operand:
    """One present operand of a step."""

    name: str
    access: Access
    tensor: Tensor


class ReferenceExecutor:
    """Executes a plan in double precision.

    Parameters
    ----------
    plan : PlanData
        A plan; every byte of its arena takes 8 bytes here, so keep it small.
    seed : int
        Key of initialisation and dropout, as in the engine.

    Attributes
    ----------
    step : int
        Optimiser steps done.
    learning_rate_scale : float
        Factor of the learning rate.
    gradients : dict of str to array
        After `train_step`: the gradient of every trained tensor right before it was consumed,
        by the weight's name, in torch's layout and before any clipping.
    """

    def __init__(self, plan: PlanData, seed: int = 0) -> None:
        self.step = 0
        self.learning_rate_scale = 1.0
        self.gradients: dict[str, Array] = {}
        self._seed = seed
        self._program = plan.program
        self._offsets = {
            tensor: offset
            for item, offset in zip(plan.lifetimes.items, plan.offsets, strict=True)
            for tensor in item.tensors
        }
        self._arena = CellArena(plan.arena_bytes)
        self._by_name = {t.name: t for t in self._program.tensors}
        self.initialize()

    def initialize(self) -> None:
        """Fill every persistent tensor by its initialiser and forget all steps."""
        self.step = 0
        for tensor in self._program.tensors:
            if tensor.role in PERSISTENT_ROLES and tensor.init.kind != InitKind.NONE:
                self._store(tensor, _initial(tensor, self._seed), planned_count(tensor))

    def snapshot(self) -> tuple[int, Array]:
        """Return everything that `restore` needs to continue from here."""
        return self.step, self._arena.cells.copy()

    def restore(self, saved: tuple[int, Array]) -> None:
        """Go back to a snapshot."""
        self.step = saved[0]
        self._arena.cells[:] = saved[1]

    def read(self, name: str) -> Array:
        """Return a tensor in the user's layout at the planned batch."""
        tensor = self._by_name[name]
        return to_user(tensor, self._load(tensor, planned_count(tensor)), planned_count(tensor))

    def write(self, name: str, values: ArrayLike) -> None:
        """Set a tensor from an array in the user's layout."""
        tensor = self._by_name[name]
        self._store(
            tensor, to_arena(tensor, np.asarray(values, np.float64), 0), planned_count(tensor)
        )

    def train_step(self, x: ArrayLike, target: ArrayLike) -> float:
        """Run one training step on a batch in the user's layout and return its loss."""
        n = self._feed(Phase.TRAIN, x, target)
        self.gradients = {}
        self._run(Phase.TRAIN, n, lambda step: False)
        self.step += 1
        return float(self._metric(Phase.TRAIN, "loss"))

    def loss(self, x: ArrayLike, target: ArrayLike) -> float:
        """Run the training phase up to its loss and return that; weights stay as they are."""
        n = self._feed(Phase.TRAIN, x, target)
        self._run(Phase.TRAIN, n, lambda step: step.kind == "L")
        return float(self._metric(Phase.TRAIN, "loss"))

    def evaluate_step(self, x: ArrayLike, target: ArrayLike) -> tuple[float, int]:
        """Return the loss of a batch and how many rows were right (0 without labels)."""
        n = self._feed(Phase.EVALUATE, x, target)
        self._run(Phase.EVALUATE, n, lambda step: False)
        loss = float(self._metric(Phase.EVALUATE, "loss"))
        has_labels = self._find(Phase.EVALUATE, "correct") is not None
        return loss, int(self._metric(Phase.EVALUATE, "correct")) if has_labels else 0

    def predict_step(self, x: ArrayLike) -> Array:
        """Return the network's output for a batch, in the user's layout."""
        n = self._feed(Phase.PREDICT, x, None)
        self._run(Phase.PREDICT, n, lambda step: False)
        (output,) = (t for t in self._program.tensors if t.role == Role.OUTPUT)
        return to_user(output, self._load(output, n), n)

    def _feed(self, phase: Phase, x: ArrayLike, target: ArrayLike | None) -> int:
        """Write the batch into the phase's input tensors and return its samples."""
        n = len(np.asarray(x))
        if not 1 <= n <= self._program.batch_size:
            raise ShapeError(f"batch of {n} samples, planned for {self._program.batch_size}")
        for role, values in ((Role.INPUT, x), (Role.TARGET, target)):
            tensor = self._first_used(phase, role)
            if tensor is not None and values is not None:
                self._store(tensor, to_arena(tensor, np.asarray(values, np.float64), n), n)
        return n

    def _first_used(self, phase: Phase, role: Role) -> Tensor | None:
        """Return the first tensor of `role` that a step of `phase` names."""
        for step in self._program.steps:
            for tensor_id in step.operands:
                if step.phase == phase and tensor_id is not None:
                    tensor = self._program.tensors[tensor_id]
                    if tensor.role == role:
                        return tensor
        return None

    def _find(self, phase: Phase, operand: str) -> Tensor | None:
        """Return the metric that a loss step of `phase` writes as `operand`."""
        for step in self._program.steps:
            for present in self._operands(step):
                is_metric = present.tensor.role == Role.METRIC
                if is_metric and step.phase == phase and present.name == operand:
                    return present.tensor
        return None

    def _metric(self, phase: Phase, operand: str) -> float:
        """Return the value of a metric of one element."""
        tensor = self._find(phase, operand)
        assert tensor is not None, f"phase {phase.name} has no {operand}"
        return float(self._load(tensor, 1).reshape(-1)[0])

    def _operands(self, step: Step) -> list[_Operand]:
        """Return the present operands of a step."""
        slots = zip(spec_of(step.op).operands, step.operands, strict=True)
        return [
            _Operand(slot.name, slot.access, self._program.tensors[tensor_id])
            for slot, tensor_id in slots
            if tensor_id is not None
        ]

    def _run(self, phase: Phase, n: int, is_last: Callable[[Step], bool]) -> None:
        """Run the steps of a phase up to and including the first one that is the last."""
        for step in self._program.steps:
            if step.phase == phase:
                self._run_step(step, n)
                if is_last(step):
                    return

    def _run_step(self, step: Step, n: int) -> None:
        """Run one step: spoil what it overwrites, read, compute, write."""
        operands = self._operands(step)
        self._spoil(step, operands)
        values = {o.name: self._load(o.tensor, n) for o in operands if o.access & Access.READ}
        slots = spec_of(step.op).slots(len(step.attrs))
        attrs = {a.name: v for a, v in zip(slots, step.attrs, strict=True)}
        call = Call(
            values,
            {o.name: dims_of(o.tensor, n) for o in operands},
            attrs,
            self._seed,
            self.step,
            self.learning_rate_scale,
        )
        self._note_gradient(step, operands, call)
        outputs = FUNCTIONS[step.op](call)
        for operand in operands:
            if operand.access & Access.WRITE:
                self._store(operand.tensor, outputs[operand.name], n)

    def _note_gradient(self, step: Step, operands: list[_Operand], call: Call) -> None:
        """Keep the gradient that an update is about to consume, or to make."""
        makes = step.op in UPDATE_OF
        if not makes and step.op not in _UPDATES:
            return
        weight = next(o.tensor for o in operands if o.name == "w")
        if makes:
            gradient = whole_gradient(call)
        else:
            gradient = call["g"] if "g" in call.values else whole_table(call.values)
        self.gradients[weight.name] = to_user(weight, gradient, 0)

    def _spoil(self, step: Step, operands: list[_Operand]) -> None:
        """Fill scratch and results with NaN before anything is read.

        What shares its storage with an input by a declared in-place pair is left alone. If the
        plan laid any other result over an input, the input is gone now.
        """
        storages = {o.name: o.tensor.storage for o in operands if o.access & Access.READ}
        pairs = spec_of(step.op).inplace
        for operand in operands:
            if operand.access & Access.READ:
                continue
            sources = {
                storages[source]
                for out, source in pairs
                if out == operand.name and source in storages
            }
            if operand.tensor.storage not in sources:
                self._arena.spoil(self._offsets[operand.tensor.id], operand.tensor.nbytes)

    def _load(self, tensor: Tensor, n: int) -> Array:
        """Return a tensor in arena layout."""
        offset = self._offsets[tensor.id]
        return self._arena.read(offset, dims_of(tensor, n), tensor.dtype.itemsize)

    def _store(self, tensor: Tensor, values: Array, n: int) -> None:
        """Write a tensor in arena layout."""
        if values.shape != dims_of(tensor, n):
            raise ShapeError(f"{tensor.name}: array {values.shape}, tensor {dims_of(tensor, n)}")
        self._arena.write(self._offsets[tensor.id], tensor.dtype.itemsize, values)


def _initial(tensor: Tensor, seed: int) -> Array:
    """Return the initial value of a persistent tensor in arena layout."""
    init: Init = tensor.init
    count = int(np.prod(tensor.dims))
    if init.kind == InitKind.CONSTANT:
        return np.full(tensor.dims, init.a)
    if init.kind == InitKind.UNIFORM:
        numbers = uniform(seed, stream_of_name(tensor.name), count)
        return (init.a + (init.b - init.a) * numbers).reshape(tensor.dims)
    if init.kind == InitKind.NORMAL:
        numbers = normal(seed, stream_of_name(tensor.name), count)
        return (init.a + init.b * numbers).reshape(tensor.dims)
    if init.kind == InitKind.SINUSOID:
        return _sinusoid(tensor.dims, init.a)
    if init.kind == InitKind.NORMAL_BUT_ROW:
        numbers = init.b * normal(seed, stream_of_name(tensor.name), count)
        rows = to_user(tensor, numbers.reshape(tensor.dims), 0).copy()
        rows[int(init.a)] = 0.0
        return to_arena(tensor, rows, 0)
    raise ShapeError(f"{tensor.name}: no initialiser {init.kind.name} in the reference")


def _sinusoid(dims: tuple[int, ...], factor: float) -> Array:
    """Return rows of sines and cosines, whose angles are the row times powers of `factor`."""
    columns = np.arange(dims[-1])
    rows = np.arange(int(np.prod(dims[:-1])))[:, np.newaxis]
    angles = rows * factor ** (columns // 2)
    return np.where(columns % 2 == 0, np.sin(angles), np.cos(angles)).reshape(dims)
