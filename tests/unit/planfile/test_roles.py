"""The engine asks the roles of the operands whose roles the checker asks."""

from __future__ import annotations

import re
from pathlib import Path

from armtrain.ir.ops import OPS, UPDATE_OF, OpCode
from armtrain.planfile.check_roles import ROLES

SOURCE = Path(__file__).resolve().parents[3] / "kernels" / "engine" / "plan_roles.c"


def test_every_operand_with_a_role_has_the_engines_rule() -> None:
    engine = set(re.findall(r"RULE\((\w+), (\w+),", SOURCE.read_text()))
    # The engine asks an update by blocks by the rules of the update, whose operands come first.
    checker = {
        (UPDATE_OF.get(code, code).name, slot.upper())
        for code, spec in OPS.items()
        for slot in spec.operand_index
        if slot in ROLES or (slot == "b" and code is not OpCode.ADD)
    }
    assert engine - {("op", "slot")} == checker
