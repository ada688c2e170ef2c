"""The training loop: order, averages, checkpoints, resuming, stopping."""

from __future__ import annotations

import io
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtrain.data import Expected, open_data
from armtrain.errors import DataError, NonFiniteError, StorageError
from armtrain.runtime.batches import Buffers
from armtrain.runtime.history import History
from armtrain.runtime.loop import FitOptions, TrainingLoop
from armtrain.runtime.measure import PeakMeter
from armtrain.runtime.progress import Quiet
from tests.unit.runtime.fake_engine import FakeEngine, shuffle

EXPECTED = Expected((2,), 0, (1,))


def run(
    engine: FakeEngine,
    count: int = 10,
    batch: int = 4,
    seed: int = 0,
    values: list[float] | None = None,
    validation: bool = False,
    notes: io.StringIO | None = None,
    **options: Any,
) -> History:
    """Train `count` samples whose targets are their numbers, or `values`."""
    y = np.array(values if values else range(count), np.float32)
    with open_data((np.zeros((len(y), 2), np.float32), y), print, batch) as source:
        source.check(EXPECTED, targets=True)
        loop = TrainingLoop(
            engine,
            shuffle,
            lambda word, values, milestones, per_step, epoch, step, plateau: 0.5**epoch,
            Buffers(batch, EXPECTED),
            PeakMeter(),
            seed=seed,
            labels=False,
            progress=Quiet(notes),
        )
        return loop.run(source, source if validation else None, FitOptions(**options))


def order(engine: FakeEngine) -> list[list[int]]:
    """Return the sample numbers of every batch."""
    return [np.array(b).astype(int).ravel().tolist() for b in engine.batches]


def test_every_epoch_is_a_new_permutation_with_a_smaller_last_batch() -> None:
    engine = FakeEngine()
    run(engine, epochs=2)
    batches = order(engine)
    assert [len(b) for b in batches] == [4, 4, 2, 4, 4, 2]
    rows = [row for batch in batches for row in batch]
    first, second = rows[:10], rows[10:]
    assert sorted(first) == sorted(second) == list(range(10))
    want = np.empty(10, np.uint64)
    shuffle(0, 1, 10, 0, want)
    assert second == want.tolist()
    assert first != second


def test_epoch_loss_is_averaged_by_sample() -> None:
    history = run(FakeEngine(), values=[1.0] * 8 + [4.0, 4.0], epochs=1)
    assert history.train_loss == [1.6]


def test_validation_is_averaged_by_sample() -> None:
    history = run(FakeEngine(), values=[1.0] * 8 + [4.0, 4.0], epochs=1, validation=True)
    assert history.val_loss == [1.6]
    assert history.val_accuracy == [None]


def test_fewer_samples_than_the_batch() -> None:
    engine, notes = FakeEngine(), io.StringIO()
    history = run(engine, count=3, batch=8, epochs=1, notes=notes)
    assert [len(b) for b in engine.batches] == [3]
    assert history.train_loss == [1.0]
    assert "3 samples are fewer than the planned batch of 8" in notes.getvalue()


def test_ten_short_fits_are_one_long_fit() -> None:
    one, many = FakeEngine(), FakeEngine()
    run(one, epochs=3)
    for _ in range(3):
        run(many, epochs=1)
    assert one.batches == many.batches


def test_checkpoints_after_epochs_and_every_few_steps(tmp_path: Path) -> None:
    engine = FakeEngine()
    run(engine, epochs=2, checkpoint=tmp_path / "c", checkpoint_every=2)
    assert engine.saves == [2, 3, 4, 6]
    assert len(list((tmp_path / "c").iterdir())) == 2


class KilledError(Exception):
    """Stands for a power failure."""


@pytest.mark.parametrize("moments", [[1], [3], [4, 2], [5, 2, 1], [1, 1, 1, 1]])
def test_interrupted_and_resumed_equals_uninterrupted(tmp_path: Path, moments: list[int]) -> None:
    quiet = FakeEngine()
    wanted = run(quiet, epochs=3, log=tmp_path / "quiet.jsonl")
    common = {"epochs": 3, "checkpoint": tmp_path / "c", "resume": True, "checkpoint_every": 1}
    for moment in moments:
        engine = FakeEngine()
        left = [moment]

        def fail(left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise KilledError

        engine.before_step = fail
        with pytest.raises(KilledError):
            run(engine, log=tmp_path / "log.jsonl", **common)
    last = FakeEngine()
    run(last, log=tmp_path / "log.jsonl", **common)
    assert last.weight == quiet.weight
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert [line["train_loss"] for line in lines] == wanted.train_loss


def test_resume_reports_what_it_skipped(tmp_path: Path) -> None:
    run(FakeEngine(), epochs=2, checkpoint=tmp_path)
    newest = max(tmp_path.iterdir())
    newest.write_text("")
    notes = io.StringIO()
    engine = FakeEngine()
    run(engine, epochs=2, checkpoint=tmp_path, resume=True, notes=notes)
    assert f"skipped {newest.name}: it is empty" in notes.getvalue()
    assert "resumed at step 3: 1 epoch(s) complete" in notes.getvalue()


def test_resume_in_an_empty_directory_starts_anew(tmp_path: Path) -> None:
    notes = io.StringIO()
    assert len(run(FakeEngine(), epochs=1, checkpoint=tmp_path, resume=True, notes=notes)) == 1
    assert "starting from the beginning" in notes.getvalue()


def test_finished_run_says_so(tmp_path: Path) -> None:
    run(FakeEngine(), epochs=1, checkpoint=tmp_path)
    notes = io.StringIO()
    history = run(FakeEngine(), epochs=1, checkpoint=tmp_path, resume=True, notes=notes)
    assert len(history) == 0
    assert "already finished: 1 of 1 epochs" in notes.getvalue()


def test_checkpoints_of_another_run_are_refused(tmp_path: Path) -> None:
    run(FakeEngine(), epochs=1, checkpoint=tmp_path)
    with pytest.raises(StorageError, match=r"1 checkpoint.*step-000000000003.*with resume=True"):
        run(FakeEngine(), epochs=1, checkpoint=tmp_path)
    with pytest.raises(DataError, match=r"seed 0, this run has seed 5.*use seed=0"):
        run(FakeEngine(5), epochs=2, seed=5, checkpoint=tmp_path, resume=True)
    with pytest.raises(DataError, match="10 training samples, the data have 9"):
        run(FakeEngine(), count=9, epochs=2, checkpoint=tmp_path, resume=True)


def test_only_damaged_checkpoints_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "step-000000000001.ckpt").write_text("")
    with pytest.raises(StorageError, match="no usable checkpoint"):
        run(FakeEngine(), epochs=1, checkpoint=tmp_path, resume=True)


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(StorageError, match="cannot make the directory"):
        run(FakeEngine(), epochs=1, checkpoint=tmp_path / "f" / "c")


def test_not_finite_keeps_checkpoints_and_names_the_batch(tmp_path: Path) -> None:
    engine = FakeEngine()

    def fail() -> None:
        if engine.state["step"] == 4:
            raise NonFiniteError("'fc.weight' holds nan")

    engine.before_step = fail
    with pytest.raises(NonFiniteError, match=r"'fc.weight' holds nan \(batch 2 of epoch 2; check"):
        run(engine, epochs=3, checkpoint=tmp_path)
    assert engine.saves == [3]


@pytest.mark.parametrize(("step", "saved"), [(1, 2), (2, 3), (5, 6)])
def test_interrupt_finishes_the_step_and_leaves_a_checkpoint(
    tmp_path: Path, step: int, saved: int
) -> None:
    engine, notes = FakeEngine(), io.StringIO()

    def interrupt() -> None:
        if engine.state["step"] == step:
            os.kill(os.getpid(), signal.SIGINT)

    engine.before_step = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(engine, epochs=9, checkpoint=tmp_path, notes=notes)
    assert engine.saves[-1] == saved
    assert "continue with resume=True" in notes.getvalue()
    resumed, quiet = FakeEngine(), FakeEngine()
    run(resumed, epochs=9, checkpoint=tmp_path, resume=True)
    run(quiet, epochs=9)
    assert resumed.weight == quiet.weight


def test_interrupt_without_a_directory_says_that_nothing_is_saved() -> None:
    engine, notes = FakeEngine(), io.StringIO()
    engine.before_step = lambda: os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(engine, epochs=1, notes=notes)
    assert "not saved" in notes.getvalue()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_log_has_exactly_the_contract_keys(tmp_path: Path) -> None:
    run(FakeEngine(), epochs=1, log=tmp_path / "log.jsonl")
    (line,) = (tmp_path / "log.jsonl").read_text().splitlines()
    assert list(json.loads(line)) == [
        "epoch",
        "kernel_level",
        "train_loss",
        "val_loss",
        "val_accuracy",
        "seconds",
        "samples_per_second",
        "arena_bytes",
        "peak_rss_bytes",
        "swap_read_bytes",
        "swap_written_bytes",
    ]


def test_log_is_started_anew_without_resume_and_survives_a_cut_line(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    run(FakeEngine(), epochs=2, log=log)
    run(FakeEngine(), epochs=1, log=log)
    assert len(log.read_text().splitlines()) == 1
    run(FakeEngine(), epochs=1, checkpoint=tmp_path / "c", log=log)
    log.write_bytes(log.read_bytes() + b'{"epoch": 1, "train_')
    run(FakeEngine(), epochs=2, checkpoint=tmp_path / "c", resume=True, log=log)
    assert [json.loads(line)["epoch"] for line in log.read_text().splitlines()] == [1, 2]


@pytest.mark.parametrize("text", ["my notes\n", '{"a": 1}\n', "[1, 2]"])
def test_a_file_that_is_no_log_is_not_emptied(text: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(StorageError, match=r"is no training log.*choose another file name"):
        run(FakeEngine(), epochs=1, log=tmp_path / "f")
    assert (tmp_path / "f").read_text() == text


@pytest.mark.parametrize("text", ["", "{", '{"epoch": 1, "ker', "\0\0\0"])
def test_what_a_power_failure_leaves_of_a_log_is_no_obstacle(text: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(text)
    run(FakeEngine(), epochs=1, log=tmp_path / "f")
    assert len((tmp_path / "f").read_bytes().splitlines()) == 1


def test_log_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write"):
        run(FakeEngine(), epochs=1, log=tmp_path / "none" / "log.jsonl")
