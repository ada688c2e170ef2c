"""The engine's cross-entropy of probabilities against PyTorch's in double, step by step."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.ir.ops import spec_of
from armtrain.ir.program import Phase, Role
from armtrain.runtime.engine import engine_module
from armtrain.runtime.reference.call import Call
from armtrain.runtime.reference.table import FUNCTIONS
from tests.golden.soft_cases import BATCHES, CLASSES, OPTIONS, logits, targets
from tests.ops.stepwise import Stepper, open_engine
from tests.tolerances import bounds

STORED = json.loads((Path(__file__).parent / "soft.json").read_text())
LEVELS = engine_module().kernel_levels()
PLANNED = max(BATCHES)
# Sums of a few dozen doubles below 100.
DOUBLE = 1e-13


@pytest.mark.parametrize("n", BATCHES)
@pytest.mark.parametrize("name", OPTIONS)
def test_value_and_gradient(name: str, n: int) -> None:
    """Under the bound of the operation's own arithmetic; the logits are a weight, as they are."""
    plan = at.plan(
        nn.Linear(PLANNED, CLASSES, bias=False),
        input_shape=(PLANNED,),
        batch_size=PLANNED,
        loss=nn.CrossEntropyLoss(**OPTIONS[name], probabilities=True),
        optimizer=optim.SGD(lr=1.0),
    )
    (loss, *slopes), expected = STORED[name][str(n)], {}
    expected["loss"], expected["dy"] = np.array([loss]), np.reshape(slopes, (n, CLASSES))
    weight = np.zeros((CLASSES, PLANNED), np.float32)
    weight[:, :n] = logits(n).T
    for level in LEVELS:
        engine = open_engine(plan, kernel_level=level)
        engine.write("weight", weight)
        stepper = Stepper(plan, engine, n)
        stepper.feed(Phase.TRAIN, Role.INPUT, np.eye(PLANNED)[:n])
        stepper.feed(Phase.TRAIN, Role.TARGET, targets(n))
        (record,) = (r for r in stepper.run(Phase.TRAIN) if r.step.kind == "L")
        slots = spec_of(record.step.op).slots(len(record.step.attrs))
        attrs = {slot.name: v for slot, v in zip(slots, record.step.attrs, strict=True)}
        call = Call({"y": logits(n), "target": targets(n)}, {}, attrs)
        allowed = bounds(record.step.op, call, FUNCTIONS[record.step.op](call))
        for operand, values in expected.items():
            off = np.abs(record.written[operand][:n] - values)
            assert (off <= allowed[operand] + DOUBLE).all(), (level, operand, off.max())
