"""The gradient of a table in the rows of a batch alone: its memory, and the whole one's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.ir.ops import OpCode
from armtrain.optim import Optimizer
from armtrain.passes import pipeline
from armtrain.planfile.groups import param_groups
from armtrain.planfile.plan import Plan

ROWS, WIDTH, WORDS, BATCH = 50, 20, 3, 4
SGD, ADAGRAD = optim.SGD(lr=0.1), optim.Adagrad(lr=0.1)


def plan_of(
    optimizer: Optimizer, rows: int = ROWS, width: int = WIDTH, words: int = WORDS, **options: Any
) -> Plan:
    """Return the plan of a table, of which row 2 means nothing, and a linear layer."""
    net = nn.Sequential(
        nn.Embedding(rows, width, padding_idx=2), nn.Flatten(), nn.Linear(words * width, 2)
    )
    given: dict[str, Any] = {"input_shape": (words,), "batch_size": BATCH, "threads": 1}
    return at.plan(net, loss=nn.CrossEntropyLoss(), optimizer=optimizer, **(given | options))


def whole(monkeypatch: pytest.MonkeyPatch, optimizer: Optimizer, **options: Any) -> Plan:
    """Return the same plan with the gradient of the whole table."""
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "updated_by_rows", lambda optimizers: frozenset())
        return plan_of(optimizer, **options)


def codes(plan: Plan) -> set[OpCode]:
    """Return the operations of a plan."""
    return {step.op for step in plan.program.steps}


def samples(count: int = 18) -> tuple[np.ndarray, np.ndarray]:
    """Return words, of which few come often, and labels."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 8, (count, WORDS)) * 6 + 2, rng.integers(0, 2, count)


def trained(plan: Plan) -> dict[str, bytes]:
    """Return the weights after three epochs, whose last batches are smaller than planned."""
    trainer = at.Trainer(plan, seed=3)
    trainer.fit(samples(), 3, progress=False)
    return {name: values.tobytes() for name, values in trainer.state_dict().items()}


@pytest.mark.parametrize("clipping", [{}, {"clip_norm": 1e6}, {"clip_norm": 0.5}])
def test_memory_follows_the_batch(clipping: dict[str, float]) -> None:
    """30,000 x 64, 7,680,000 B: all but the table takes less than 1 % of it."""
    table, options = 30_000 * 64 * 4, {"rows": 30_000, "width": 64, "words": 16, **clipping}
    assert table < plan_of(SGD, **options).arena_bytes < 1.01 * table
    assert 2 * table < plan_of(ADAGRAD, **options).arena_bytes < 2.01 * table
    assert plan_of(optim.SGD(lr=0.1, momentum=0.9), **options).arena_bytes > 3 * table


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("clipping", [{}, {"clip_value": 1e-3}, {"clip_norm": 1e6}])
@pytest.mark.parametrize("optimizer", [SGD, optim.Adagrad(lr=0.1, lr_decay=0.1)])
def test_weights_have_the_bits_of_the_whole_gradient(
    optimizer: Optimizer,
    clipping: dict[str, float],
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = plan_of(optimizer, threads=threads, **clipping)
    dense = whole(monkeypatch, optimizer, **clipping)
    assert OpCode.EMBEDDING_GRAD_ROWS in codes(rows) - codes(dense)
    assert OpCode.EMBEDDING_GRAD in codes(dense) - codes(rows)
    assert trained(rows) == trained(dense)


def test_a_norm_that_clips_differs_by_its_rounding_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, dense = trained(plan_of(SGD, clip_norm=0.1)), whole(monkeypatch, SGD, clip_norm=0.1)
    for name, values in trained(dense).items():
        got, want = (np.frombuffer(v, np.float32) for v in (rows[name], values))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


class Uses(nn.Module):
    """A table that is used twice, or is a linear layer's weight, too."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(ROWS, WIDTH), nn.Linear(WIDTH, ROWS)
        self.tied = tied
        if tied:
            self.last.weight = self.table.weight

    def forward(self, x: Any) -> Any:
        """Return logits."""
        y = self.table(x[:, 0])
        return self.last(y if self.tied else y + self.table(x[:, 1]))


@pytest.mark.parametrize("tied", [True, False])
def test_a_table_with_other_uses_has_its_whole_gradient(tied: bool) -> None:
    plan = at.plan(
        Uses(tied),
        input_shape=(2,),
        batch_size=BATCH,
        loss=nn.CrossEntropyLoss(),
        optimizer=SGD,
    )
    assert OpCode.EMBEDDING_GRAD in codes(plan)
    assert OpCode.EMBEDDING_GRAD_ROWS not in codes(plan)
    assert "gradient of" not in str(plan)


@pytest.mark.parametrize(
    "optimizer",
    [
        SGD.with_options(momentum=0.9),
        SGD.with_options(weight_decay=0.1),
        ADAGRAD.with_options(weight_decay=0.1),
        ADAGRAD.with_options(eps=0.0),
        *(optim.Adam(), optim.AdamW(), optim.RMSprop()),
    ],
    ids=lambda optimizer: optimizer.text,
)
def test_an_optimizer_that_changes_all_rows_has_the_whole_gradient(optimizer: Optimizer) -> None:
    plan = plan_of(optimizer)
    assert OpCode.EMBEDDING_GRAD in codes(plan)
    text = "table '0.weight' (50 rows): gradient of all rows; of 12 with plain SGD or Adagrad"
    assert text in str(plan)


def test_a_group_of_its_own_decides_for_a_table() -> None:
    groups = [{"params": "0.*", "momentum": 0.0}]
    plan = plan_of(SGD.with_options(momentum=0.9), param_groups=groups)
    assert OpCode.EMBEDDING_SGD_STEP in codes(plan)
    assert [(g.optimizer, g.params) for g in param_groups(plan.program)] == [
        ("sgd", ("0.weight",)),
        ("sgd", ("2.weight", "2.bias")),
    ]


def test_the_plan_says_which_rows_have_a_gradient() -> None:
    plan = plan_of(SGD)
    assert "table '0.weight' (50 rows): gradient of a batch's 12 indices" in str(plan)
    assert [g.optimizer for g in param_groups(plan.program)] == ["sgd"]
    small = plan_of(SGD, rows=BATCH * WORDS)  # as many rows as indices
    assert OpCode.EMBEDDING_GRAD in codes(small)
    assert "gradient of" not in str(small)


def test_a_checkpoint_of_a_plan_with_the_whole_gradient_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its steps are others, its weights are not: nothing is said of other settings."""
    unbroken, first = at.Trainer(plan_of(SGD), seed=3), at.Trainer(whole(monkeypatch, SGD), seed=3)
    unbroken.fit(samples(), 4, progress=False)
    first.fit(samples(), 2, checkpoint=tmp_path / "c", progress=False)
    second = at.Trainer(plan_of(SGD), seed=3)
    second.fit(samples(), 4, checkpoint=tmp_path / "c", resume=True, progress=True)
    said = "".join(capfd.readouterr())
    assert "resumed at step" in said
    assert "other settings" not in said
    for name, values in unbroken.state_dict().items():
        assert second.state_dict()[name].tobytes() == values.tobytes()
