"""The checker's rules for what a parameter's operands are: their roles, and whose they are.

Names tell which gradient and which optimiser state belong to a parameter: theirs are the
parameter's, followed by a word, and by `~` and a number where that name was taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from armtrain.ir.ops import UPDATE_OF, OpCode, OpSpec
from armtrain.ir.program import Role
from armtrain.planfile.check_parse import RawPlan

__all__ = ["ROLES", "UPDATES", "role_findings"]

UPDATES = (
    *(OpCode.SGD_STEP, OpCode.ADAM_STEP, OpCode.ADAMW_STEP),
    *(OpCode.RMSPROP_STEP, OpCode.ADAGRAD_STEP),
    *(OpCode.EMBEDDING_SGD_STEP, OpCode.EMBEDDING_ADAGRAD_STEP),
    *UPDATE_OF,
)
_PARAMETER = (Role.WEIGHT, Role.FROZEN)
ROLES: dict[str, tuple[Role, ...]] = {
    **dict.fromkeys(("w", "gamma", "beta"), _PARAMETER),
    **dict.fromkeys(("mean", "var"), (Role.BUFFER,)),
    **dict.fromkeys(("m", "v", "momentum", "square_avg", "grad_avg", "sum"), (Role.STATE,)),
    **dict.fromkeys(("g", "dw", "db", "dgamma", "dbeta", "rows"), (Role.GRADIENT,)),
    **dict.fromkeys(("loss", "correct", "acc", "scale"), (Role.METRIC,)),
}
"""Operand -> roles that it may have, in every operation that has such an operand."""

_WORDS = {
    **dict.fromkeys(("g", "rows"), ".grad"),
    **{"m": "/exp_avg", "v": "/exp_avg_sq"},
    **{slot: f"/{slot}" for slot in ("momentum", "square_avg", "grad_avg", "sum")},
}
"""Operand of an optimiser step -> what its name adds to the parameter's."""


def role_findings(raw: RawPlan, spec: OpSpec, present: dict[str, int], where: str) -> Iterator[str]:
    """Compare the roles of a step's operands, and the names of an update's, with the rules."""
    for slot, tensor in present.items():
        role = Role(raw.tensors[tensor]["role"])
        wanted = ROLES.get(slot, ())
        if slot == "b" and spec.code is not OpCode.ADD:
            wanted = _PARAMETER
        if slot == "w" and spec.code in UPDATES:
            wanted = (Role.WEIGHT,)
        if wanted and role not in wanted:
            names = " or ".join(r.name for r in wanted)
            yield f"{where}: {slot} '{raw.name(tensor)}' has role {role.name}, needs {names}"
    if spec.code not in UPDATES:
        return
    parameter = raw.name(present["w"])
    for slot, word in _WORDS.items():
        name = raw.name(present[slot]) if slot in present else parameter + word
        rest = name.removeprefix(parameter + word)
        if len(rest) == len(name) or not (rest == "" or rest.startswith("~")):
            yield f"{where}: {slot} '{name}' is not '{parameter}{word}'"
