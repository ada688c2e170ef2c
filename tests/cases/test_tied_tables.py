"""A table that is the last layer's weight, too: one storage, one state, kept through files.

Cases PLAN-05 and CKPT-07 with an embedding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.errors import PlanError
from armtrain.io import safetensors
from armtrain.ir.program import Role

BATCH = 4


class Tied(nn.Module):
    """The next of `rows` words, from one word."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, width)
        self.last = nn.Linear(width, rows, bias=False)
        self.last.weight = self.table.weight

    def forward(self, x: Any) -> Any:
        """Return logits."""
        return self.last(self.table(x[:, 0]))


def trainer_of(seed: int, rows: int = 6, width: int = 3) -> at.Trainer:
    """Return a trainer with Adam."""
    plan = at.plan(
        Tied(rows, width),
        input_shape=(1,),
        batch_size=BATCH,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.Adam(lr=0.1),
        threads=1,
    )
    return at.Trainer(plan, seed=seed)


def words(count: int = 14) -> tuple[np.ndarray, np.ndarray]:
    """Return words and the ones after them."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 6, (count, 1)), rng.integers(0, 6, count)


def test_a_tied_table_is_counted_once() -> None:
    """1000 x 64: 64,000 parameters, two moments of 256,000 B each, one update."""
    program = trainer_of(0, 1000, 64).plan.program
    sizes = dict.fromkeys((Role.WEIGHT, Role.STATE), 0)
    for tensor in program.tensors:
        if tensor.role in sizes:
            sizes[tensor.role] += tensor.nbytes
    assert sizes == {Role.WEIGHT: 256_000, Role.STATE: 512_000}
    assert sum(step.kind == "AG" for step in program.steps) == 1


def test_a_tied_table_is_stored_once_and_stays_tied(tmp_path: Path) -> None:
    before, after = trainer_of(1), trainer_of(2)
    before.fit(words(), 1, progress=False)
    before.save(tmp_path / "w")
    assert list(safetensors.load_file(tmp_path / "w")) == ["table.weight"]
    after.load(tmp_path / "w")
    x = words()[0]
    assert after.predict(x).tobytes() == before.predict(x).tobytes()
    after.step(x[:BATCH], words()[1][:BATCH])
    table = after.state_dict()["table.weight"].astype(np.float64)
    logits = table[x[:, 0]] @ table.T  # both uses have the weight after the step
    np.testing.assert_allclose(after.predict(x), logits, rtol=1e-5, atol=1e-6)


def test_a_resumed_run_has_the_bits_of_an_unbroken_one(tmp_path: Path) -> None:
    whole, first, second = trainer_of(1), trainer_of(1), trainer_of(1)
    whole.fit(words(), 4, progress=False)
    first.fit(words(), 2, checkpoint=tmp_path / "c", progress=False)
    second.fit(words(), 4, checkpoint=tmp_path / "c", resume=True, progress=False)
    states = [t.state_dict()["table.weight"].tobytes() for t in (whole, second)]
    assert states[0] == states[1]


def test_a_second_copy_in_a_file_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    trainer = trainer_of(1)
    table = trainer.state_dict()["table.weight"]
    safetensors.save_file({"table.weight": table + 1, "last.weight": table + 2}, tmp_path / "w")
    with pytest.raises(PlanError, match=r"'last\.weight'.*remove that tensor"):
        trainer.load(tmp_path / "w")
    assert np.array_equal(trainer.state_dict()["table.weight"], table)
