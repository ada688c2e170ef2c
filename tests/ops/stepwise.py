"""One step at a time: what the engine reads and writes, beside what the reference makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from armtrain.dtypes import DType
from armtrain.ir.ops import Access, OpCode, spec_of
from armtrain.ir.program import Phase, Role, Step, Tensor
from armtrain.planfile.plan import Plan
from armtrain.runtime.engine import engine_module
from armtrain.runtime.reference.call import Call
from armtrain.runtime.reference.layout import dims_of, to_arena
from armtrain.runtime.reference.table import FUNCTIONS
from tests.tolerances import bounds

__all__ = ["MAY_FUSE", "Record", "Stepper", "open_engine"]

NUMPY_TYPES = {
    DType.F32: np.float32,
    DType.F64: np.float64,
    DType.I32: np.int32,
    DType.U8: np.uint8,
    DType.I64: np.int64,
}
MAY_FUSE = frozenset(
    op for op in OpCode if op.name.startswith(("LINEAR", "CONV", "MATMUL", "BLOCKS"))
)
"""Operations whose kernels may fuse multiply and add; all others are bit-equal on all levels."""


@dataclass(frozen=True)
class Record:
    """One executed step: raw operands before it and after it, by catalogue name."""

    index: int
    step: Step
    read: dict[str, np.ndarray]
    written: dict[str, np.ndarray]


def open_engine(plan: Plan, **options: Any) -> Any:
    """Return an engine with initial weights."""
    engine = engine_module().Engine(plan.to_bytes(), seed=1, **options)
    engine.initialize()
    return engine


class Stepper:
    """Runs the steps of a phase one by one on one engine."""

    def __init__(self, plan: Plan, engine: Any, n: int) -> None:
        self.plan, self.engine, self.n = plan, engine, n

    def feed(self, phase: Phase, role: Role, values: np.ndarray) -> None:
        """Write a batch in the user's layout into the tensor of `role` that `phase` reads."""
        used = {i for s in self.plan.program.steps if s.phase == phase for i in s.operands}
        for tensor in self.plan.program.tensors:
            if tensor.role == role and tensor.id in used:
                raw = self.peek(tensor)
                n = self.n if tensor.batched else 0
                part = to_arena(tensor, values.astype(np.float64), n)
                raw[: len(part)] = part
                self.engine.poke(tensor.id, raw)

    def run(self, phase: Phase) -> list[Record]:
        """Run all steps of a phase."""
        return [self._run_step(i) for i in self.plan.phase_steps(phase)]

    def restore(self, record: Record) -> None:
        """Write what a step read where it will read it again."""
        for name, tensor in self._operands(record.step, Access.READ).items():
            self.engine.poke(tensor.id, record.read[name])

    def replay(self, record: Record) -> Record:
        """Run the same step on the same operands."""
        self.restore(record)
        return self._run_step(record.index)

    def check(self, record: Record) -> None:
        """Compare a step with the reference on the same operands, within the derived bound."""
        step = record.step
        call = self._call(record)
        exact = FUNCTIONS[step.op](call)
        allowed = bounds(step.op, call, exact)
        for name, tensor in self._operands(step, Access.WRITE).items():
            got = self._used(tensor, record.written[name]).astype(np.float64)
            known = np.isfinite(exact[name])
            # Only the sums of later gradients may still be empty.
            assert known.all() or step.op == OpCode.GRAD_SUMSQ, f"{step}: {name} is not finite"
            excess = (np.abs(got - exact[name]) - allowed[name])[known]
            worst = excess.max(initial=-np.inf)
            assert worst <= 0.0, f"{step.op.name} of {step.layer}: {name} is off by {worst} more"

    def _call(self, record: Record) -> Call:
        """Return the reference's view of a step."""
        step, state = record.step, self.engine.get_state()
        shapes = {n: dims_of(t, self.n) for n, t in self._operands(step, Access(7)).items()}
        values = {
            name: self._used(tensor, record.read[name]).astype(np.float64)
            for name, tensor in self._operands(step, Access.READ).items()
        }
        slots = spec_of(step.op).slots(len(step.attrs))
        attrs = {a.name: v for a, v in zip(slots, step.attrs, strict=True)}
        return Call(values, shapes, attrs, state["seed"], state["step"])

    def _run_step(self, index: int) -> Record:
        """Run one step and remember its operands."""
        step = self.plan.program.steps[index]
        read = {n: self.peek(t) for n, t in self._operands(step, Access.READ).items()}
        self.engine.run_steps(index, index + 1, self.n)
        written = {n: self.peek(t) for n, t in self._operands(step, Access.WRITE).items()}
        return Record(index, step, read, written)

    def _operands(self, step: Step, access: Access) -> dict[str, Tensor]:
        """Return the present operands with any of the bits of `access`, by name."""
        slots = zip(spec_of(step.op).operands, step.operands, strict=True)
        tensors = self.plan.program.tensors
        return {s.name: tensors[i] for s, i in slots if i is not None and s.access & access}

    def _used(self, tensor: Tensor, raw: np.ndarray) -> np.ndarray:
        """Return the rows of the actual batch."""
        return raw[: self.n] if tensor.batched else raw

    def peek(self, tensor: Tensor) -> np.ndarray:
        """Return a tensor as it lies in the arena, at the planned batch."""
        out = np.empty(tensor.dims, NUMPY_TYPES[tensor.dtype])
        self.engine.peek(tensor.id, out)
        return out
