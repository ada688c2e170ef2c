"""Indices that are none change nothing, whichever way they come; and all programs agree on them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.cli.main import main
from armtrain.errors import DataError
from armtrain.nn.functional import cat

RUN = Path(__file__).resolve().parents[2] / "build" / "armtrain-run"
N, BATCH, USERS, ITEMS = 20, 8, 6, 9


class Net(nn.Module):
    """Batch norm of numbers before two tables: it would move before an index is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.user = nn.Embedding(USERS, 3)
        self.item = nn.Embedding(ITEMS, 3, padding_idx=0)
        self.last = nn.Linear(8, 1)

    def forward(self, x: Any) -> Any:
        """Return ratings."""
        numbers = self.norm(x[:, 2:])
        return self.last(cat([numbers, self.user(x[:, 0]), self.item(x[:, 1])], 1))


def plan_of(net: nn.Module, inputs: int) -> at.Plan:
    """Return the plan of a regression."""
    return at.plan(
        net,
        input_shape=(inputs,),
        batch_size=BATCH,
        loss=nn.MSELoss(),
        optimizer=optim.Adam(lr=0.01),
        threads=1,
    )


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return ratings with two numbers each."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, USERS, (N, 1)), rng.integers(0, ITEMS, (N, 1))
    x = np.concatenate([users, items, rng.normal(size=(N, 2))], axis=1).astype(np.float32)
    return x, rng.normal(size=(N, 1)).astype(np.float32)


@pytest.mark.parametrize("value", [USERS, -1.0, 0.5, 3e7])
def test_a_bad_index_changes_nothing(value: float) -> None:
    trainer, (x, y) = at.Trainer(plan_of(Net(), 4), seed=1), data()
    trainer.step(x[:BATCH], y[:BATCH])
    before = trainer.state_dict()
    x[13, 0] = value
    text = rf"row 13 \(counted from 0\) has {value:.9g} at element 0.*rows are 0\.\.{USERS - 1}"
    for use in (
        lambda: trainer.fit((x, y), 1),
        lambda: trainer.evaluate((x, y)),
        lambda: trainer.predict(x),
    ):
        with pytest.raises(DataError, match=text):
            use()
    part, out = x[10:14], np.zeros((4, 1), np.float32)
    for call in (
        lambda: trainer._engine.train_step(part, y[10:14], 4),
        lambda: trainer._engine.evaluate_step(part, y[10:14], 4),
        lambda: trainer._engine.predict_step(part, 4, out),
    ):
        with pytest.raises(DataError, match=r"sample 3 of the batch has the index .* rows 0 to 5"):
            call()
    after = trainer.state_dict()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_the_engine_knows_which_inputs_are_indices() -> None:
    limits = np.zeros(4, np.uint32)
    at.Trainer(plan_of(Net(), 4))._engine.index_limits(limits)
    assert limits.tolist() == [USERS, ITEMS, 0, 0]


class Both(nn.Module):
    """The smaller of two tables bounds an index that both take."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Embedding(9, 2), nn.Embedding(5, 2)
        self.last = nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        """Return a prediction."""
        return self.last(cat([self.one(x[:, 1]), self.two(x.reshape(-1, 2, 2)[:, 0, 1])], 1))


def test_an_index_of_two_tables_fits_both() -> None:
    limits = np.zeros(4, np.uint32)
    at.Trainer(plan_of(Both(), 4))._engine.index_limits(limits)
    assert limits.tolist() == [0, 5, 0, 0]


def words_plan() -> at.Plan:
    """Return a plan whose inputs are all indices."""
    return plan_of(nn.Sequential(nn.Embedding(200, 3), nn.Flatten(), nn.Linear(6, 1)), 2)


def both(folder: Path, spec: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Train a plan in `folder` with both programs, which must end alike; return code and error."""
    args = [str(folder / "m.plan"), "--data", spec, "--epochs", "1", "--seed", "3"]
    code = main(["train", *args, "--save", str(folder / "a.safetensors")])
    captured = capsys.readouterr()
    done = subprocess.run(
        [str(RUN), *args, "--save", str(folder / "b.safetensors")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert ("warning" in captured.out, "warning" in done.stdout) == (False, False)
    if code == 0:
        files = [(folder / f"{name}.safetensors").read_bytes() for name in "ab"]
        assert files[0] == files[1]
    else:
        theirs = done.stderr.partition("; indices are")[0].removeprefix("armtrain-run: ")
        assert theirs in captured.err
    return code, captured.err


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.float32])
def test_integers_of_files_give_the_same_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dtype: Any
) -> None:
    words_plan().save(tmp_path / "m.plan")
    x = np.random.default_rng(1).integers(0, 200, (N, 2)).astype(dtype)
    np.savez(tmp_path / "d.npz", x=x, y=data()[1])
    assert both(tmp_path, f"npz:{tmp_path / 'd.npz'}", capsys) == (0, "")


def test_a_bad_index_of_a_file_is_refused_with_its_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words_plan().save(tmp_path / "m.plan")
    x = np.random.default_rng(1).integers(0, 200, (N, 2))
    x[17, 1] = 200
    np.savez(tmp_path / "d.npz", x=x, y=data()[1])
    code, error = both(tmp_path, f"npz:{tmp_path / 'd.npz'}", capsys)
    assert code == 1
    assert "row 17 (counted from 0) has 200 at element 1" in error


def test_random_data_have_indices_in_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_of(Net(), 4).save(tmp_path / "m.plan")
    assert both(tmp_path, "random:samples=40,seed=5", capsys) == (0, "")


def test_converted_integers_stay_indices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words_plan().save(tmp_path / "m.plan")
    x = np.random.default_rng(1).integers(0, 200, (N, 2))
    np.savez_compressed(tmp_path / "d.npz", x=x, y=data()[1])
    assert main(["convert-data", f"npz:{tmp_path / 'd.npz'}", "-o", str(tmp_path / "e.npz")]) == 0
    capsys.readouterr()
    assert both(tmp_path, f"npz:{tmp_path / 'e.npz'}", capsys) == (0, "")
