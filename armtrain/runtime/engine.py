"""The compiled engine as the runtime sees it; the only door to `armtrain._engine`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from armtrain.data import Expected
from armtrain.data.target_range import TargetRange
from armtrain.dtypes import DType
from armtrain.errors import EngineError, ShapeError
from armtrain.ir.ops import OPS, OpCode
from armtrain.ir.program import Phase, Program, Role
from armtrain.limits import NO_LABEL
from armtrain.runtime.room import index_bytes

if TYPE_CHECKING:
    from armtrain._engine import Engine

__all__ = [
    "RunState",
    "check_smallest_batch",
    "engine_module",
    "expected_by",
    "expected_of",
    "output_shape",
]


def engine_module() -> Any:
    """Return the module `armtrain._engine`; raises EngineError when it was never built."""
    try:
        from armtrain import _engine
    except ImportError as error:
        raise EngineError(
            f"the compiled engine cannot be loaded ({error}); build it with `make ext` in the "
            "source tree, or install the package with `pip install .`"
        ) from error
    return _engine


@dataclass
class RunState:
    """Where a run stands; the engine stores it in checkpoints.

    Attributes
    ----------
    seed : int
    step : int
        Optimiser steps since initialisation; the engine counts them.
    epoch : int
        Complete epochs.
    position : int
        Samples of the current epoch already trained.
    loss_counted : float
        What the current epoch's losses were divided by, in sum (`Engine.counted`).
    loss_sum : float
        Sum of these losses, each times what it was divided by.
    learning_rate_scale : float
    n_train : int
        Samples of the training data, 0 if unknown.
    """

    seed: int
    step: int
    epoch: int
    position: int
    loss_counted: float
    loss_sum: float
    learning_rate_scale: float
    n_train: int

    @staticmethod
    def of(engine: Engine) -> RunState:
        """Return the engine's state."""
        return RunState(**engine.get_state())

    def put(self, engine: Engine) -> None:
        """Give the state to the engine, whose own count of steps stays."""
        self.step = engine.get_state()["step"]
        engine.set_state(vars(self))


def expected_by(engine: Engine, program: Program) -> Expected:
    """Return what a plan wants of one sample, from the engine that has opened it."""
    info = engine.info()
    limits: tuple[int, ...] = ()
    if index_bytes(program):
        rows = np.zeros(info["input_elements"], np.uint32)
        engine.index_limits(rows)
        known: dict[int, int] = {}  # an element's number is one of a few, and kept once
        limits = tuple(known.setdefault(n, n) for n in map(int, rows))
    found = engine.target_range()
    targets = TargetRange(**found) if found else None
    ignored = int(info["ignored_label"])
    return expected_of(program, int(info["n_classes"]), limits, targets, ignored)


def expected_of(
    program: Program,
    n_classes: int,
    index_limits: tuple[int, ...] = (),
    targets: TargetRange | None = None,
    ignored_label: int = NO_LABEL,
) -> Expected:
    """Return what a plan wants of one sample.

    Parameters
    ----------
    program : Program
    n_classes : int
        The engine's number of classes, 0 for float targets.
    index_limits : tuple of int
        As in `Expected`.
    targets : TargetRange, optional
        As in `Expected`.
    ignored_label : int
        As in `Expected`.
    """
    target = next(t for t in program.tensors if t.role is Role.TARGET)
    if target.dtype is DType.I32:
        return Expected(
            *(program.input_shape, n_classes),
            index_limits=index_limits,
            ignored_label=ignored_label,
        )
    shape = target.layout.shape[1:]
    return Expected(program.input_shape, 0, shape, index_limits, targets)


def output_shape(program: Program) -> tuple[int, ...]:
    """Return the user's shape of the prediction for one sample."""
    output = next(t for t in program.tensors if t.role is Role.OUTPUT)
    return output.layout.shape[1:]


def check_smallest_batch(program: Program, n_train: int) -> None:
    """Refuse data whose last batch would give batch normalisation one value a channel.

    Raises
    ------
    ShapeError
        Naming the layer and batch sizes that work.
    """
    batch = program.batch_size
    smallest = n_train % batch or min(batch, n_train)
    if smallest != 1:
        return
    index = OPS[OpCode.BATCHNORM2D_FWD].operand_index["x"]
    for step in program.steps:
        operand = step.operands[index] if step.op is OpCode.BATCHNORM2D_FWD else None
        if step.phase is not Phase.TRAIN or operand is None:
            continue
        dims = program.tensors[operand].dims
        if dims[1] * dims[2] == 1:
            sizes = [b for b in range(batch, 1, -1) if n_train % b != 1][:1]
            way = f"plan with batch {sizes[0]}, or " if sizes else ""
            raise ShapeError(
                f"{n_train} samples in batches of {batch} leave a last batch of 1, which gives "
                f"batch normalisation '{step.layer}' one value a channel and no variance; "
                f"{way}leave one sample out"
            )
