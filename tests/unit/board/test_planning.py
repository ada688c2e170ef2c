"""The board and the threads are inputs of a plan."""

from __future__ import annotations

from pathlib import Path

import armtrain as at
from armtrain import nn, optim
from armtrain.dtypes import STACK_BYTES
from armtrain.planfile.plan import Plan


def planned(**options: object) -> Plan:
    """Return the plan of one layer."""
    return at.plan(
        nn.Linear(4, 2),
        input_shape=(4,),
        batch_size=8,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.1),
        **options,  # type: ignore[arg-type]
    )


def test_the_default_board_plans_four_threads() -> None:
    plan = planned()
    assert (plan.program.board, plan.threads) == ("generic", 4)
    assert plan.stacks_bytes == 3 * STACK_BYTES


def test_threads_and_profile_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('id = "mine"\nname = "My board"\nthreads = 2\n')
    plan = planned(board=str(path))
    assert (plan.program.board, plan.threads) == ("mine", 2)
    assert planned(board=str(path), threads=1).stacks_bytes == 0
    assert str(tmp_path) not in plan.to_bytes().decode("latin-1")


def test_a_budget_is_recorded() -> None:
    plan = planned(budget="2 MiB", threads=1)
    assert plan.budget_bytes == 2**21
    assert Plan.from_bytes(plan.to_bytes()).budget_bytes == 2**21
