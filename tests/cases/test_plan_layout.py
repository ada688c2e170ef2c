"""Cases from real reports that concern the memory layout and the plan file (PLAN-07 to PLAN-19)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.errors import PlanError
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Phase, Role
from armtrain.memory import Buffer, Problem, pack
from armtrain.memory.validate import violations
from armtrain.planfile.assemble import assemble
from armtrain.planfile.check import findings
from armtrain.planfile.plan import Plan
from armtrain.schedule.lifetime import lifetimes_of
from tests.plan_edit import with_field
from tests.plans import ProgramBuilder


def small_plan(batch_size: int = 8, hidden: int = 16) -> Plan:
    """Return the plan of a small classifier."""
    net = nn.Sequential(nn.Linear(12, hidden), nn.ReLU(), nn.Linear(hidden, 3))
    return at.plan(
        net,
        input_shape=(12,),
        batch_size=batch_size,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.1, momentum=0.9),
        threads=1,
    )


def test_plan_07_outputs_stay_readable() -> None:
    # 'middle' is a result and read by a later step, 'side' is a result that nobody reads.
    b = ProgramBuilder(4)
    b.phase = Phase.PREDICT
    x = b.tensor("x", Role.INPUT, (4, 100), batched=True)
    middle = b.tensor("middle", Role.OUTPUT, (4, 100), batched=True)
    b.step(OpCode.TANH_FWD, "a", "F", x=x, y=middle)
    side = b.tensor("side", Role.OUTPUT, (4, 100), batched=True)
    b.step(OpCode.RELU_FWD, "b", "F", x=middle, y=side)
    last = middle
    for i in range(4):
        y = b.tensor(f"y{i}", Role.ACTIVATION, (4, 100), batched=True)
        b.step(OpCode.TANH_FWD, f"t{i}", "F", x=last, y=y)
        last = y
    end = b.tensor("end", Role.OUTPUT, (4, 100), batched=True)
    b.step(OpCode.COPY, "end", "F", x=last, y=end)
    program = b.program("m", "mse", "sgd", (100,))
    lives = {t: item for item in lifetimes_of(program).items for t in item.tensors}
    for result in (middle, side, end):
        assert lives[result].last == len(program.steps)
    # The checker finds all three in their places to the end, too; but an engine returns one result.
    found = findings(Plan.of(assemble(program)).to_bytes())
    assert found == ["two tensors 'middle' and 'side' are the output at step 6"]


def test_plan_08_every_offset_is_aligned_and_padding_counted() -> None:
    b = ProgramBuilder(1)
    b.phase = Phase.PREDICT
    previous = b.tensor("x", Role.INPUT, (1, 135), batched=True)
    b.step(OpCode.COPY, "a", "F", x=previous, y=b.tensor("540 B", Role.OUTPUT, (1, 135)))
    for index, size in enumerate((1, 7, 64)):
        x = b.tensor(f"in {size}", Role.INPUT, (1, size), batched=True)
        y = b.tensor(f"out {size}", Role.OUTPUT, (1, size), batched=True)
        b.step(OpCode.COPY, f"copy {index}", "F", x=x, y=y)
    plan = Plan.of(assemble(b.program("m", "mse", "sgd", (135,))))
    assert all(offset % 64 == 0 for offset in plan.offsets)
    tops = [o + i.nbytes for o, i in zip(plan.offsets, plan.lifetimes.items, strict=True)]
    assert plan.arena_bytes >= max(tops)
    assert plan.arena_bytes % 64 == 0
    # All eight buffers are live at the last step but the inputs that are no longer read.
    assert plan.lower_bound_bytes == plan.arena_bytes
    assert plan.padding_bytes > 0


SIX = [(3, 0, 3), (3, 3, 4), (3, 2, 3), (6, 4, 5), (3, 1, 2), (1, 2, 4)]


def test_plan_11_six_buffers_reach_ten() -> None:
    problem = Problem(tuple(Buffer(first, last + 1, size) for size, first, last in SIX))
    solution = pack(problem)
    assert not violations(problem, solution.offsets)
    assert (solution.lower_bound_bytes, solution.height_bytes) == (10, 10)
    assert "lower bound 10" in solution.dump(problem)


def test_plan_12a_another_batch_or_model() -> None:
    plan = small_plan()
    with pytest.raises(PlanError, match="model hash"):
        plan.verify_program(small_plan(batch_size=9).program)
    with pytest.raises(PlanError, match="model hash"):
        plan.verify_program(small_plan(hidden=17).program)
    plan.verify_program(small_plan().program)


def test_plan_12b_a_changed_byte() -> None:
    content = bytearray(small_plan().to_bytes())
    content[len(content) // 2] ^= 1
    with pytest.raises(PlanError, match="checksum"):
        Plan.from_bytes(bytes(content))


def test_plan_12c_overlapping_live_buffers() -> None:
    plan = small_plan()
    kept = [i for i, s in enumerate(plan.lifetimes.items) if s.role is Role.WEIGHT]
    offsets = list(plan.offsets)
    offsets[kept[1]] = offsets[kept[0]]
    broken = replace(plan, offsets=tuple(offsets))
    names = [plan.program.tensors[plan.lifetimes.items[i].tensors[0]].name for i in kept[:2]]
    with pytest.raises(PlanError) as caught:
        Plan.from_bytes(broken.to_bytes())
    assert all(f"'{name}'" in str(caught.value) for name in names)
    assert "overlap" in str(caught.value)


def test_plan_12d_a_buffer_four_bytes_too_small() -> None:
    plan = small_plan()
    tensor = next(t for t in plan.program.tensors if t.role is Role.WEIGHT)
    content = with_field(plan.to_bytes(), "tensors", tensor.id, "bytes", tensor.nbytes - 4)
    with pytest.raises(PlanError, match=re.escape(tensor.name)) as caught:
        Plan.from_bytes(content)
    assert f"need {tensor.nbytes} B" in str(caught.value)


_SCRIPT = """
import sys
from tests.cases.test_plan_layout import small_plan
sys.stdout.buffer.write(small_plan().to_bytes())
"""


def test_plan_19_the_same_bytes_in_every_process(root: Path) -> None:
    outputs = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        )
        outputs.add(done.stdout)
    assert outputs == {small_plan().to_bytes()}
