"""Which cases emulated processors run: enough of the table for every operation to come.

The other cases differ in what the planner makes of a network, which is the same on every
processor. `python -m tests.ops.covering` prints their names; tests/ops/conftest.py obeys them.
"""

from __future__ import annotations

from tests.ops.cases import CASES, make_plan


def covering() -> list[str]:
    """Return the cases, in the table's order, that bring an operation which none before has.

    An operation is another one for every number of dimensions that its operands have.
    """
    met: set[tuple[object, ...]] = set()
    chosen = []
    for name, case in CASES.items():
        program = make_plan(case).program
        ranks = [len(tensor.dims) for tensor in program.tensors]
        found = {
            (step.op, *(None if t is None else ranks[t] for t in step.operands))
            for step in program.steps
        }
        if not found <= met:
            chosen.append(name)
            met |= found
    return chosen


if __name__ == "__main__":
    print("\n".join(covering()))
