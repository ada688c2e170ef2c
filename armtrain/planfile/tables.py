"""What the gradients of tables of embeddings cost, in words."""

from __future__ import annotations

from math import prod

from armtrain.ir.ops import OpCode, spec_of
from armtrain.ir.program import Program, Step, Tensor

__all__ = ["table_lines"]


def _operand(program: Program, step: Step, name: str) -> Tensor | None:
    """Return the tensor in a slot of a step, None where there is none."""
    place = spec_of(step.op).operand_index.get(name)
    tensor = None if place is None else step.operands[place]
    return None if tensor is None else program.tensors[tensor]


def table_lines(program: Program) -> list[str]:
    """Return a line per trained table that has more rows than a batch has indices.

    It says which rows have a gradient, and what would work where all have. A table that is also
    a weight of other layers has its whole gradient anyway, and no line.
    """
    made: dict[str, tuple[OpCode, int]] = {}
    lines = []
    for step in program.steps:
        if step.op in (OpCode.EMBEDDING_GRAD, OpCode.EMBEDDING_GRAD_ROWS):
            x = _operand(program, step, "x")
            gradient = _operand(program, step, "dw") or _operand(program, step, "rows")
            if x is not None and gradient is not None:
                made[gradient.name] = step.op, prod(x.dims)
        gradient = _operand(program, step, "g") or _operand(program, step, "rows")
        w = _operand(program, step, "w")
        if w is not None and gradient is not None and gradient.name in made:
            op, indices = made[gradient.name]
            if indices < w.layout.shape[0]:
                lines.append(_line(w, op, indices))
    return lines


def _line(table: Tensor, op: OpCode, indices: int) -> str:
    """Return what is said of one table."""
    head = f"  table '{table.name}' ({table.layout.shape[0]:,d} rows): gradient of "
    if op is OpCode.EMBEDDING_GRAD_ROWS:
        return f"{head}a batch's {indices:,d} indices"
    return f"{head}all rows; of {indices:,d} with plain SGD or Adagrad (docs/embedding.md)"
