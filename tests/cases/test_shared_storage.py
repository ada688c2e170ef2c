"""One storage under several names: a weight used twice, a value seen in several shapes.

Cases PLAN-04, PLAN-05 and PLAN-09.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.ir.program import Phase, Role


def plan_of(net: nn.Module, inputs: int, **options: Any) -> at.Plan:
    """Return a one-thread plan for one sample."""
    options = {"optimizer": optim.SGD(lr=1.0), "loss": nn.MSELoss(), "threads": 1} | options
    return at.plan(net, input_shape=(inputs,), batch_size=1, **options)


class Twice(nn.Module):
    """One weight in two layers: one behind the other, or the sum of both."""

    def __init__(self, inputs: int, outputs: int, chained: bool) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, outputs, bias=False)
        self.second = nn.Linear(inputs, outputs, bias=False)
        self.second.weight = self.first.weight
        self.chained = chained

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return y."""
        first = self.first(x)
        return self.second(first) if self.chained else first + self.second(nn.Tanh()(x))


def test_a_weight_that_is_used_twice_gets_the_sum_of_both_gradients() -> None:
    """For y = w w x, w = 2 and x = 3, dy/dw is 2 w x = 12."""
    trainer = at.Trainer(plan_of(Twice(1, 1, True), 1, optimizer=optim.SGD(lr=0.1)))
    trainer.load_state_dict({"first.weight": np.full((1, 1), 2.0)})
    trainer.step(np.array([[3.0]], np.float32), np.array([[11.5]], np.float32))  # dL/dy = 1
    assert trainer.state_dict()["first.weight"].item() == pytest.approx(0.8, rel=1e-6)


def test_a_shared_matrix_has_one_state() -> None:
    """1000 x 64 in two layers: two moments of 256,000 B each, one gradient, one update."""
    program = plan_of(Twice(64, 1000, False), 64, optimizer=optim.Adam(lr=0.1)).program
    totals = dict.fromkeys((Role.WEIGHT, Role.STATE, Role.GRADIENT), 0)
    storages = {t.storage: t for t in program.tensors}
    for tensor in storages.values():
        if tensor.role in totals:
            totals[tensor.role] += tensor.nbytes
    assert totals[Role.WEIGHT] == 256_000
    assert totals[Role.STATE] == 512_000
    assert sum(step.kind == "AG" for step in program.steps) == 1


class Seen(nn.Module):
    """24 numbers z and, by other names, their first six; ReLU would like to overwrite z."""

    def __init__(self, late: bool) -> None:
        super().__init__()
        self.fc = nn.Linear(24, 24, bias=False)
        self.late = late

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return the first six of z, reshaped, flattened and cut, beside all of ReLU(z)."""
        z = self.fc(x)
        again = nn.Flatten()(nn.Unflatten(1, (2, 3, 4))(z))
        first = None if self.late else again[:, :6]
        positive = nn.ReLU()(z)
        return nn.functional.cat([again[:, :6] if first is None else first, positive], 1)


@pytest.mark.parametrize("late", [False, True], ids=["cut before", "cut after"])
def test_a_slice_keeps_its_values_under_an_overwriting_layer(late: bool) -> None:
    plan = plan_of(Seen(late), 24)
    trainer = at.Trainer(plan)
    trainer.load_state_dict({"fc.weight": np.eye(24)})
    x = np.array([[(-1.0) ** i * (i + 1) for i in range(24)]], np.float32)
    y = trainer.predict(x)
    assert y.tolist() == [[*x[0, :6], *np.maximum(x[0], 0)]]
    trainer.step(x, y - np.float32(y.size / 2))  # dL/dy = 1
    gradient = (np.arange(24) < 6) * 1.0 + (x[0] > 0)
    want = np.eye(24) - np.outer(gradient, x[0])
    assert trainer.state_dict()["fc.weight"].tolist() == want.tolist()
    # Reshaped and flattened it is no tensor of its own; ReLU overwrites z where no name needs it.
    tensors = {t.name: t for t in plan.program.tensors}
    assert not [name for name in tensors if "flatten" in name and "grad" not in name]
    relu = next(s for s in plan.program.steps if s.layer == "relu" and s.phase is Phase.TRAIN)
    z, r = (plan.program.tensors[t] for t in relu.operands if t is not None)
    assert (z.storage == r.storage) == (not late)
