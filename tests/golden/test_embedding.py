"""Weights after a few steps of networks with tables, against PyTorch's, both in double."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.ir.program import Role
from armtrain.planfile.plan import Plan
from armtrain.runtime.reference import ReferenceExecutor
from tests.golden.embedding import CASES, PLANNED, WORDS, EmbeddingCase, batches
from tests.golden.runs import initial_weights

STORED = json.loads((Path(__file__).parent / "embedding.json").read_text())
# Three steps of sums of a few dozen doubles; Adam divides by roots of them.
TOLERANCE = 1e-11


def plan_of(case: EmbeddingCase) -> Plan:
    """Return the plan of a case."""
    return at.plan(
        case.build(nn),
        input_shape=(WORDS,),
        batch_size=PLANNED,
        loss=nn.CrossEntropyLoss(),
        optimizer=getattr(optim, case.optimizer)(**case.options),
        clip_norm=case.clip_norm,
    )


def test_every_case_is_stored() -> None:
    assert STORED.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_weights_are_those_of_torch(name: str) -> None:
    plan = plan_of(CASES[name])
    executor = ReferenceExecutor(plan)
    shapes = {t.name: t.layout.shape for t in plan.program.tensors if t.role == Role.WEIGHT}
    for tensor, shape in shapes.items():
        executor.write(tensor, initial_weights(tensor, shape))
    for x, labels in batches():
        executor.train_step(x, labels)
    assert shapes.keys() == STORED[name].keys()
    for tensor, shape in shapes.items():
        expected = np.reshape(STORED[name][tensor], shape)
        np.testing.assert_allclose(executor.read(tensor), expected, TOLERANCE, TOLERANCE)


def test_the_row_that_means_nothing_starts_with_zeros_and_stays() -> None:
    plan = plan_of(CASES["padded_adam"])
    trainer, executor = at.Trainer(plan, seed=3), ReferenceExecutor(plan, seed=3)
    for x, labels in batches():
        table = trainer.state_dict()["0.weight"]
        assert not table[4].any()
        assert table[[0, 1, 2, 3, 5]].all()
        trainer.step(x, labels)
    assert not executor.read("0.weight")[4].any()
