"""Parameter groups of a plan: what its steps do to which parameters, read from the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from armtrain.ir.ops import OPS, UPDATE_OF
from armtrain.ir.program import InitKind, Program, Role, Step

__all__ = ["ParamGroup", "group_lines", "param_groups"]

_SHOWN = 4


@dataclass(frozen=True)
class ParamGroup:
    """Parameters that the same update changes.

    Attributes
    ----------
    optimizer : str
        Operation of the update without '_step': 'sgd', also where it is one of a table's rows or
        goes block by block.
    options : dict
        Its attributes, and `initial_` values of its state that are not 0.
    params : tuple of str
        In the model's order.
    """

    optimizer: str
    options: dict[str, float]
    params: tuple[str, ...]

    def to_json_dict(self) -> dict[str, Any]:
        """Return the group as `inspect --json` shows it."""
        return {"optimizer": self.optimizer, **self.options, "params": list(self.params)}


def _options(program: Program, step: Step) -> dict[str, float]:
    """Return the values of an update."""
    spec, own = OPS[step.op], OPS[UPDATE_OF.get(step.op, step.op)].attrs
    result = {slot.name: step.attrs[place] for place, slot in enumerate(own)}
    for slot, operand in zip(spec.operands, step.operands, strict=True):
        state = None if operand is None else program.tensors[operand]
        if state is not None and state.role == Role.STATE and state.init.kind != InitKind.NONE:
            result |= {f"initial_{slot.name}": state.init.a} if state.init.a != 0.0 else {}
    return result


def param_groups(program: Program) -> tuple[ParamGroup, ...]:
    """Return the groups in the order of their first parameters."""
    members: dict[tuple[Any, ...], list[int]] = {}
    for step in program.steps:
        slot = OPS[step.op].operand_index.get("w")
        weight = None if slot is None or step.kind != "AG" else step.operands[slot]
        if weight is not None:
            update = UPDATE_OF.get(step.op, step.op)
            name = update.name.lower().removeprefix("embedding_").removesuffix("_step")
            key = (name, *_options(program, step).items())
            members.setdefault(key, []).append(weight)
    return tuple(
        ParamGroup(
            name,
            dict(options),
            tuple(program.tensors[i].name for i in sorted(weights)),
        )
        for (name, *options), weights in sorted(members.items(), key=lambda item: min(item[1]))
    )


def group_lines(program: Program, shown: int | None = _SHOWN) -> list[str]:
    """Return a line per group if there are several; at most `shown` names in each."""
    groups = param_groups(program)
    if len(groups) < 2:
        return []
    lines = [f"  {len(groups)} parameter groups:"]
    for group in groups:
        options = ",".join(f"{name}={value!r}" for name, value in group.options.items())
        names = ", ".join(group.params[:shown])
        more = len(group.params) - len(group.params[:shown])
        rest = f" and {more} more" if more else ""
        lines.append(f"    {group.optimizer}:{options}: {names}{rest}")
    return lines
