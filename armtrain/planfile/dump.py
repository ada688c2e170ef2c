"""A plan as text: every tensor and every step on a line of its own, the same on every host."""

from __future__ import annotations

from armtrain.ir.ops import OPS
from armtrain.memory import Solution
from armtrain.planfile.account import accounts, layer_table
from armtrain.planfile.assemble import problem_of
from armtrain.planfile.data import PlanData
from armtrain.planfile.groups import group_lines
from armtrain.planfile.hash import model_hash

__all__ = ["packing_csv", "text_dump"]


def _shape(dims: tuple[int, ...]) -> str:
    """Return dimensions as '32x784'."""
    return "x".join(str(d) for d in dims)


def _tensor_lines(data: PlanData) -> list[str]:
    """Return one line per tensor: address, bytes, steps, role, type, dimensions, name."""
    place = {
        item.storage: (offset, item)
        for item, offset in zip(data.lifetimes.items, data.offsets, strict=True)
    }
    lines = ["tensors: id storage offset bytes [first,last) role dtype arena-dims name shape"]
    for t in data.program.tensors:
        offset, item = place[t.storage]
        batched = " batched" if t.batched else ""
        lines.append(
            f"  {t.id} {t.storage} {offset} {t.nbytes} [{item.first},{item.last}) "
            f"{t.role.name.lower()} {t.dtype.name.lower()} {_shape(t.dims)} {t.name} "
            f"{_shape(t.layout.shape)}{batched}"
        )
    return lines


def _step_lines(data: PlanData) -> list[str]:
    """Return one line per step: operation, layer, operands by name, attributes."""
    program = data.program
    lines = ["steps: index phase kind layer operation(operands) attributes"]
    for index, step in enumerate(program.steps):
        spec = OPS[step.op]
        operands = ", ".join(
            f"{slot.name}={program.tensors[operand].name}"
            for slot, operand in zip(spec.operands, step.operands, strict=True)
            if operand is not None
        )
        attrs = " ".join(
            f"{slot.name}={value!r}"
            for slot, value in zip(spec.slots(len(step.attrs)), step.attrs, strict=True)
        )
        line = (
            f"  {index} {step.phase.name.lower()} {step.kind} {step.layer} "
            f"{step.op.name.lower()}({operands}) {attrs}"
        )
        lines.append(line.rstrip())
    return lines


def text_dump(data: PlanData) -> str:
    """Return the whole plan as text, for reading and for comparing two plans."""
    program = data.program
    lines = [
        f"plan: model {model_hash(program).hex()} batch {program.batch_size} threads "
        f"{program.threads} board {program.board}",
        f"loss {program.loss} optimizer {program.optimizer} clip_norm {program.clip_norm} "
        f"clip_value {program.clip_value} input {_shape(program.input_shape)}",
        *group_lines(program, None),
        f"arena {data.arena_bytes} lower_bound {data.lower_bound_bytes} proved_minimum "
        f"{data.proved_minimum_bytes} budget {data.budget_bytes} by {data.method}",
        *(f"{key} {value}" for key, value in accounts(data).items()),
        "model:",
        *(f"  {line}" for line in program.model_text.splitlines()),
        "layers: name steps parameter-bytes",
        *(f"  {r['name']} {r['steps']} {r['parameter_bytes']}" for r in layer_table(program)),
        *_tensor_lines(data),
        *_step_lines(data),
    ]
    return "\n".join(lines) + "\n"


def packing_csv(data: PlanData, solved: bool = False) -> str:
    """Return the packing problem as `id,lower,upper,size` rows, with `offset` if `solved`."""
    solution = Solution(
        data.offsets,
        data.arena_bytes,
        data.lower_bound_bytes,
        data.proved_minimum_bytes,
        data.method,
        data.nodes,
    )
    return problem_of(data.lifetimes).to_csv(solution if solved else None)
