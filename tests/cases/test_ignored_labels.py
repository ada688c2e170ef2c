"""Batches of which nothing counts: all labels of samples or places are ignored. Case NUM-06."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.cli.main import main
from tests.cases.test_losses_and_steps import RUN, Logits, bits, trainer_of


def four_classes(places: tuple[int, ...]) -> nn.Module:
    """Return layers that make three numbers logits of four classes, at each place if there are."""
    last = nn.Linear(4, 4 * math.prod(places))
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), last, nn.Unflatten(1, (4, *places)))


def at_places(labels: Any, places: tuple[int, ...]) -> np.ndarray:
    """Return labels of samples as those of all their places, which are floats."""
    y = np.asarray(labels)
    shape = y.shape + places
    return np.resize(np.repeat(y, math.prod(places)), shape).astype(np.float32) if places else y


PLACES = pytest.mark.parametrize("places", [(), (2,), (2, 3)], ids=str)
IGNORED = pytest.mark.parametrize("ignored", [2, -1, 255])
"""Of a class and of none."""


@PLACES
@IGNORED
@pytest.mark.parametrize("optimizer", [optim.SGD(lr=0.1, momentum=0.9), optim.AdamW(lr=0.1)])
def test_a_batch_whose_labels_are_all_ignored_changes_nothing(
    optimizer: optim.Optimizer, ignored: int, places: tuple[int, ...]
) -> None:
    """The step before it leaves momentum that a step of it would apply."""
    loss = nn.CrossEntropyLoss(ignore_index=ignored)
    trainer = trainer_of(
        *(four_classes(places), (3,), 4),
        loss=loss,
        optimizer=optimizer.with_options(weight_decay=0.1),
    )
    x = np.random.default_rng(0).random((4, 3), np.float32)
    nothing = at_places([ignored] * 4, places)
    trainer.step(x, at_places(range(4), places))
    before, step = bits(trainer), trainer._engine.get_state()["step"]
    assert trainer.step(x, nothing) == 0.0
    assert bits(trainer) == before
    assert trainer._engine.get_state()["step"] == step
    result = trainer.evaluate((x, nothing))
    assert (result.loss, result.accuracy, result.correct, result.counted) == (0.0, None, 0, 0.0)
    nothing[-1:] = 1
    assert trainer.step(x, nothing) > 0.0
    assert trainer._engine.get_state()["step"] == step + 1


@PLACES
@IGNORED
def test_a_run_goes_on_over_batches_of_ignored_labels(
    tmp_path: Path, ignored: int, places: tuple[int, ...]
) -> None:
    """Both front ends: the same bits, the mean over what counts, also when resumed after a skip."""
    loss = nn.CrossEntropyLoss(ignore_index=ignored)
    trainer = trainer_of(
        four_classes(places), (3,), 2, loss=loss, optimizer=optim.SGD(lr=0.1, momentum=0.9)
    )
    trainer.plan.save(tmp_path / "m.plan")
    x = np.random.default_rng(0).random((12, 3), np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=at_places([ignored] * 9 + [0, 1, 3], places))
    data, told = f"npz:{tmp_path}/d.npz", f"have only the ignored label {ignored}: no step is made"
    args = [str(RUN), f"{tmp_path}/m.plan", "--data", data, "--epochs", "2", "--validation", data]
    args += ["--checkpoint-every", "1", "--log", f"{tmp_path}/log"]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*args, *more], capture_output=True, text=True, check=False)

    done = run("--checkpoint", f"{tmp_path}/c", "--save", f"{tmp_path}/w")
    assert (done.returncode, (done.stdout + done.stderr).count(told)) == (0, 1), done.stderr
    history = trainer.fit(data, 2, validation=data, progress=False)
    trainer.save(tmp_path / "v")
    assert (tmp_path / "v").read_bytes() == (tmp_path / "w").read_bytes()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["train_loss"] for line in lines] == history.train_loss
    assert [line["val_loss"] for line in lines] == history.val_loss
    assert trainer._engine.get_state()["step"] < 2 * 6
    assert all(0.5 < value < 4.0 for value in history.train_loss)

    class Stop:
        def on_step_end(self, step: int, logs: dict[str, Any]) -> None:
            raise RuntimeError("power cut")

    again = at.Trainer(f"{tmp_path}/m.plan", seed=0)
    options = {"checkpoint": tmp_path / "d", "resume": True, "progress": False}
    with pytest.raises(at.ArmtrainError, match="power cut"):
        again.fit(data, 2, callbacks=[Stop()], **options)
    shutil.copytree(tmp_path / "d", tmp_path / "e")
    resumed = again.fit(data, 2, **options)
    again.save(tmp_path / "u")
    done = run("--checkpoint", f"{tmp_path}/e", "--resume", "--save", f"{tmp_path}/t")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "u").read_bytes() == (tmp_path / "w").read_bytes()
    assert (tmp_path / "t").read_bytes() == (tmp_path / "w").read_bytes()
    again_lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert resumed.train_loss == history.train_loss
    assert [line["train_loss"] for line in again_lines[-2:]] == history.train_loss


@pytest.mark.parametrize(
    ("places", "told"),
    [((), "all 8 samples have the ignored label "), ((2,), "all 8 samples have the same targets")],
)
@IGNORED
@pytest.mark.parametrize("front", ["run", "python"])
def test_data_of_ignored_labels_alone_are_told_and_train_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    front: str,
    ignored: int,
    places: tuple[int, ...],
    told: str,
) -> None:
    loss = nn.CrossEntropyLoss(ignore_index=ignored)
    trainer = trainer_of(four_classes(places), (3,), 4, loss=loss)
    trainer.plan.save(tmp_path / "m.plan")
    x = np.random.default_rng(0).random((8, 3), np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=at_places([ignored] * 8, places))
    data, told = f"npz:{tmp_path}/d.npz", told if places else f"{told}{ignored}"
    trainer.save(tmp_path / "before")
    args = [f"{tmp_path}/m.plan", "--data", data, "--epochs", "1", "--validation", data]
    args += ["--save", f"{tmp_path}/after"]
    if front == "run":
        done = subprocess.run([str(RUN), *args], capture_output=True, text=True, check=False)
        code, said = done.returncode, done.stdout + done.stderr
    else:
        code, said = main(["train", *args]), "".join(capsys.readouterr())
    assert code == 0
    assert f"training data: {told}: there is nothing to learn" in said
    assert "nan" not in said
    assert (tmp_path / "after").read_bytes() == (tmp_path / "before").read_bytes()


def test_places_that_are_all_ignored_measure_nothing(tmp_path: Path) -> None:
    """Their loss, 0, would be the best of all epochs and end the run at the second."""
    trainer = trainer_of(four_classes((2,)), (3,), 4, loss=nn.CrossEntropyLoss(ignore_index=2))
    trainer.plan.save(tmp_path / "m.plan")
    x = np.random.default_rng(0).random((8, 3), np.float32)
    for name, labels in (("t", range(8)), ("v", [2] * 8)):
        np.savez(tmp_path / f"{name}.npz", x=x, y=at_places(labels, (2,)) % 4)
    data, held = f"npz:{tmp_path}/t.npz", f"npz:{tmp_path}/v.npz"
    history = trainer.fit(
        *(data, 3),
        validation=held,
        early_stopping=1,
        keep_best=tmp_path / "p",
        schedule="plateau:patience=0,factor=0.5",
        progress=False,
    )
    args = [str(RUN), f"{tmp_path}/m.plan", "--data", data, "--validation", held, "--epochs", "3"]
    args += ["--early-stopping", "1", "--keep-best", f"{tmp_path}/r", "--json"]
    args += ["--schedule", "plateau:patience=0,factor=0.5", "--save", f"{tmp_path}/w"]
    done = subprocess.run(args, check=True, capture_output=True, timeout=60)
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (len(history), history.best_epoch, history.stopped_early) == (3, None, False)
    assert [summary[n] for n in ("epochs", "best_epoch", "stopped_early")] == [3, None, False]
    assert not (tmp_path / "p").exists()
    assert not (tmp_path / "r").exists()
    trainer.save(tmp_path / "v")
    assert (tmp_path / "v").read_bytes() == (tmp_path / "w").read_bytes()


def both(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    """Train two epochs with both, which end alike and write one file; return code and errors."""
    args = [f"{path}/m.plan", "--data", f"npz:{path}/d.npz", "--epochs", "2", *more]
    done = subprocess.run(
        [str(RUN), *args, "--save", f"{path}/w"], capture_output=True, text=True, check=False
    )
    code, said = main(["train", *args, "--save", f"{path}/v"]), capsys.readouterr().err
    assert code == done.returncode, done.stderr
    assert code or (path / "v").read_bytes() == (path / "w").read_bytes()
    for text in ("ignore_index", "(counted from 0)"):
        assert (text in said) == (text in done.stderr)
    return code, said + done.stderr


def weights(path: Path) -> dict[str, bytes]:
    """Return what was learned."""
    trainer = at.Trainer(f"{path}/m.plan")
    trainer.load(path / "w")
    return bits(trainer)


@PLACES
def test_which_label_is_ignored_changes_no_bit(
    tmp_path: Path, places: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """A class, others, and torch's own where nobody says which, whose operation is another."""
    x = np.random.default_rng(0).random((22, 3), np.float32)
    y = np.random.default_rng(1).integers(0, 4, (22, *places))
    learned = []
    for ignored in (2, -1, 255, 2**24, None, -100):
        path = tmp_path / str(ignored)
        path.mkdir()
        options = {} if ignored is None else {"ignore_index": ignored}
        trainer = trainer_of(
            four_classes(places), (3,), 8, loss=nn.CrossEntropyLoss(**options), seed=0
        )
        trainer.plan.save(path / "m.plan")
        labels = np.where(y == 2, -100 if ignored is None else ignored, y)
        labels = labels.astype(np.float32 if places else np.int64)
        np.savez(path / "d.npz", x=x, y=labels)
        assert both(path, capsys, "--validation", f"npz:{path}/d.npz")[0] == 0
        learned.append((weights(path), trainer.evaluate((x, labels)).counted))
    assert all(one == learned[0] for one in learned)
    assert learned[0][1] == (y != 2).sum()


@pytest.mark.parametrize("ignored", [-1, 255, -100, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("smoothing", [None, 0.0, 0.2])
def test_values_and_gradients_are_those_of_the_samples_that_count(
    ignored: int, smoothing: float | None
) -> None:
    """In double, with torch's formula; smoothing None: the plain loss, where it takes the label."""
    weight = np.array([0.5, 2.0, 1.5])
    options: dict[str, Any] = {"ignore_index": ignored}
    if smoothing is not None:
        options |= {"weight": weight.tolist(), "label_smoothing": smoothing}
    logits = np.random.default_rng(3).normal(size=(5, 3)).astype(np.float32)
    labels = np.array([0, ignored, 2, 1, ignored])
    loss, gradient = Logits(logits.tolist(), **options).step(labels.tolist())
    w, s = (np.ones(3), 0.0) if smoothing is None else (weight, smoothing)
    rows = logits.astype(np.float64)
    logs = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
    shares = np.zeros((5, 3))
    for row in (0, 2, 3):
        shares[row] = w * (s / 3 + (1 - s) * (np.arange(3) == labels[row]))
    shares /= w[labels[[0, 2, 3]]].sum()
    assert loss == pytest.approx(-(shares * logs).sum(), rel=1e-6)
    expected = np.exp(logs) * shares.sum(axis=1, keepdims=True) - shares
    assert gradient == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert (gradient[[1, 4]] == 0.0).all()


def test_a_label_of_no_class_is_refused_unless_declared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = np.random.default_rng(0).random((12, 3), np.float32), np.arange(12) % 4
    y[3] = -1
    np.savez(tmp_path / "d.npz", x=x, y=y)
    for ignored, code in ((-100, 1), (2, 1), (-2, 1), (-1, 0)):
        loss = nn.CrossEntropyLoss(ignore_index=ignored)
        trainer = trainer_of(four_classes(()), (3,), 4, loss=loss)
        trainer.plan.save(tmp_path / "m.plan")
        found, said = both(tmp_path, capsys)
        assert found == code
        assert said.count("-1..3; the first bad one is in row 3 (counted from 0)") == 2 * code
        assert said.count("; ignore_index=-1 of the loss leaves such samples out") == 2 * code
        if code:
            with pytest.raises(at.DataError, match="in row 3 "):
                trainer.evaluate((x, y))
    whole = trainer.evaluate((x, y), metrics="top1,top3,confusion")
    counted = trainer.evaluate((x[y >= 0], y[y >= 0]), metrics="top1,top3,confusion")
    assert (whole.metrics, whole.accuracy) == (counted.metrics, counted.accuracy)
    assert (whole.correct, whole.counted, whole.samples) == (counted.correct, 11.0, 12)
    assert whole.loss == pytest.approx(counted.loss, rel=1e-12)


def test_a_mask_of_0_and_255(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).random((8, 3), np.float32)
    y = np.where(np.random.default_rng(1).random((8, 2, 3)) < 0.5, 255.0, 0.0)
    np.savez(tmp_path / "d.npz", x=x, y=y.astype(np.float32))
    net = nn.Sequential(nn.Linear(3, 12), nn.Unflatten(1, (2, 2, 3)))
    for options, code in (({}, 1), ({"ignore_index": 255}, 0)):
        trainer = trainer_of(net, (3,), 4, loss=nn.CrossEntropyLoss(**options))
        trainer.plan.save(tmp_path / "m.plan")
        found, said = both(tmp_path, capsys)
        assert found == code
        assert said.count("has 255 at element ") == 2 * code
        assert said.count("map 255 of a mask to 1") == 2 * code
        assert said.count("(as ignore_index=255)") == 2 * code
    result = trainer.evaluate((x, y.astype(np.float32)))
    assert result.counted == (y == 0).sum()


@pytest.mark.parametrize("ignored", [-1, 255])
def test_tables_and_manifests_may_have_labels_that_do_not_count(
    tmp_path: Path, ignored: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A manifest knows the smallest and the largest label alone, and converting keeps them all."""
    x, y = np.random.default_rng(0).random((12, 3), np.float32), np.arange(12) % 4
    y[[3, 7]] = ignored
    rows = "\n".join(f"{a},{b},{c},{label}" for (a, b, c), label in zip(x, y, strict=True))
    (tmp_path / "d.csv").write_text(f"a,b,c,k\n{rows}\n")
    table = f"csv:{tmp_path}/d.csv?label=k"
    assert main(["check-data", table, "-o", f"{tmp_path}/m.json"]) == 0
    assert main(["convert-data", table, "-o", f"{tmp_path}/d.npz"]) == 0
    capsys.readouterr()
    for label, code in ((ignored, 0), (2, 1)):
        loss = nn.CrossEntropyLoss(ignore_index=label)
        trainer = trainer_of(four_classes(()), (3,), 4, loss=loss)
        trainer.plan.save(tmp_path / "m.plan")
        assert both(tmp_path, capsys)[0] == code
        for spec in (table, f"manifest:{tmp_path}/m.json"):
            args = [f"{tmp_path}/m.plan", "--data", spec, "--epochs", "2"]
            assert main(["train", *args, "--save", f"{tmp_path}/c"]) == code
            said = capsys.readouterr().err
            assert (f"ignore_index={ignored} of the loss leaves such samples out" in said) == code
            if not code:
                again = at.Trainer(trainer.plan)
                again.load(tmp_path / "c")
                assert bits(again) == weights(tmp_path)


def test_the_number_of_no_label_is_a_value_like_others() -> None:
    """Targets that are no labels count, also where all are -100."""
    trainer = trainer_of(nn.Linear(3, 2), (3,), 4, loss=nn.MSELoss())
    x, y = np.random.default_rng(0).random((4, 3), np.float32), np.full((4, 2), -100, np.float32)
    before = bits(trainer)
    assert trainer.evaluate((x, y)).counted == 4.0
    assert trainer.step(x, y) > 1000.0
    assert bits(trainer) != before
