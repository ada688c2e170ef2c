"""Cases from real reports that concern the memory budget (MEM-01, MEM-04)."""

from __future__ import annotations

import re

import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.errors import DoesNotFitError
from armtrain.ir.program import Phase, Role
from armtrain.planfile.plan import Plan


def mlp_plan(**options: object) -> Plan:
    """Return the plan of an MLP 784-128-64-10 with SGD and momentum, batch 32."""
    net = nn.Sequential(
        nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    return at.plan(
        net,
        input_shape=(784,),
        batch_size=32,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.01, momentum=0.9),
        threads=1,
        **options,  # type: ignore[arg-type]
    )


def test_mem_01_a_megabyte_is_refused_with_the_numbers() -> None:
    with pytest.raises(DoesNotFitError) as caught:
        mlp_plan(budget=1_000_000)
    text = str(caught.value)
    assert caught.value.exit_code == 3
    assert "the budget is 1,000,000 B" in text
    assert "weights 437,544 B + optimizer state 437,544 B = 875,088 B" in text
    assert "lower bound" in text
    assert re.search(r"401,408 B  weight", text)
    assert re.search(r"100,352 B  input", text)
    assert "train_only='4.*': needs" in text
    assert re.search(r"not enough alone: batch_size=1: needs at least 1,\d{3},\d{3} B", text)


def test_mem_01_the_offered_way_out_fits() -> None:
    plan = mlp_plan(budget=1_000_000, train_only="4.*")
    assert plan.arena_bytes <= 1_000_000
    assert plan.budget_bytes == 1_000_000


def test_mem_01_what_the_forward_pass_keeps() -> None:
    plan = mlp_plan()
    loss = next(i for i, s in enumerate(plan.program.steps) if s.kind == "L")
    kept = [
        item.nbytes
        for item in plan.lifetimes.items
        if item.role in (Role.INPUT, Role.ACTIVATION) and item.first <= loss < item.last
    ]
    assert sorted(kept) == [1_280, 8_192, 16_384, 100_352]
    assert sum(kept) == 126_208


def test_mem_04_only_the_last_layer_trains() -> None:
    plan = mlp_plan(train_only="4.*")
    assert plan.gradients_peak_bytes == 2_600
    assert plan.optimizer_bytes == 2_600
    backward = next(i for i, s in enumerate(plan.program.steps) if s.kind == "CG")
    train = plan.phase_steps(Phase.TRAIN)
    assert backward in train
    kept = [
        item
        for item in plan.lifetimes.items
        if item.role is Role.ACTIVATION and item.first < backward < item.last
    ]
    assert sum(item.nbytes for item in kept if item.nbytes > 1_280) == 8_192
