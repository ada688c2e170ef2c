"""Values that are made again have the bits that they had, whatever is made again.

The planner chooses what lowers the peak. Here everything that can be is made again, in each case
of the table, and the engine must end with the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from armtrain.ir.ops import OpCode
from armtrain.ir.program import Phase, Role, Step
from armtrain.passes.again import AGAIN, Choice, Forwards, rewrite
from armtrain.passes.emit import Emitter
from armtrain.planfile.plan import Plan
from tests.ops.cases import CASES, make_plan
from tests.ops.stepwise import open_engine
from tests.ops.test_engine import LEVELS, persistent, trained
from tests.ops.test_gradient import check_gradients

Pass = Callable[[Emitter, Sequence[Step], object, int], tuple[Step, ...]]


def everything(fleeting: bool) -> Pass:
    """Return the pass that makes all values again, each once or whenever it is needed."""

    def drop_all(
        emitter: Emitter, steps: Sequence[Step], rates: object, floor: int
    ) -> tuple[Step, ...]:
        values = Forwards.of(steps, emitter)
        bits = frozenset(values.maskable if fleeting else ())
        late = frozenset(values.late) - bits
        return tuple(rewrite(emitter, values, Choice(late, late if fleeting else bits, bits))[0])

    return drop_all


def forced(name: str, monkeypatch: pytest.MonkeyPatch, fleeting: bool = False) -> Plan:
    """Return the plan of a case that makes everything again, as a file holds it."""
    monkeypatch.setattr("armtrain.passes.pipeline.free_recompute", everything(fleeting))
    return Plan.from_bytes(make_plan(CASES[name]).to_bytes())


def made_again(plan: Plan) -> list[Step]:
    """Return the forward steps of the backward pass."""
    steps = [s for s in plan.program.steps if s.phase == Phase.TRAIN]
    loss = next(i for i, step in enumerate(steps) if step.kind == "L")
    return [step for step in steps[loss:] if step.kind == "F"]


@pytest.mark.parametrize("fleeting", [False, True], ids=["held", "fleeting"])
@pytest.mark.parametrize("name", CASES)
def test_the_same_bits(name: str, fleeting: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    kept = make_plan(case, free_recompute=False)
    plan = forced(name, monkeypatch, fleeting)
    for index, level in enumerate(LEVELS if made_again(plan) else ()):
        engines = [
            open_engine(kept, kernel_level=level, threads=1),
            open_engine(plan, kernel_level=level, threads=1 + (index + fleeting) % 2),
        ]
        losses = [trained(engine, case, 4) for engine in engines]
        assert losses[0] == losses[1]
        assert persistent(kept, engines[0]) == persistent(plan, engines[1])


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armtrain.passes.pipeline.free_recompute", everything(fleeting=False))
    if made_again(make_plan(CASES[name])):
        check_gradients(CASES[name])


def test_every_operation_is_made_again_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    found: set[OpCode] = set()
    rectifiers = set()
    for name in CASES:
        steps = made_again(forced(name, monkeypatch))
        found |= {step.op for step in steps}
        rectifiers |= {s.attrs[0] for s in steps if s.op == OpCode.BATCHNORM2D_APPLY}
    assert found == set(AGAIN.values())
    assert rectifiers == {0, 1, 2}


@pytest.mark.parametrize("name", CASES)
def test_statistics_move_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the forward step of a batch norm writes its running statistics."""
    plan = forced(name, monkeypatch)
    program = plan.program
    for step in made_again(plan):
        roles = {program.tensors[t].role for t in step.operands if t is not None}
        assert step.op != OpCode.BATCHNORM2D_FWD
        assert Role.BUFFER not in roles or step.op == OpCode.BATCHNORM2D_EVAL
