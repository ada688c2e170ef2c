"""`evaluate` with metrics, from Python and on the command line, against NumPy on predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.cli.main import main
from armtrain.errors import ArgumentError, DoesNotFitError, NonFiniteError

RNG = np.random.default_rng(5)
X = RNG.normal(size=(37, 6)).astype(np.float32)
LABELS = RNG.integers(0, 5, 37)


def trainer_of(loss: nn.Loss, outputs: int = 5) -> at.Trainer:
    """Return a trainer in batches of 8, so that the last one is smaller."""
    net = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Dropout(0.5), nn.Linear(9, outputs))
    plan = at.plan(
        net, input_shape=(6,), batch_size=8, loss=loss, optimizer=optim.SGD(lr=0.1), threads=1
    )
    return at.Trainer(plan, seed=2)


def test_labels() -> None:
    trainer = trainer_of(nn.CrossEntropyLoss())
    result = trainer.evaluate((X, LABELS), metrics=["top1", "top3", "confusion"])
    outputs = trainer.predict(X)
    best = np.argsort(-outputs, axis=1)[:, :3]
    assert result.metrics["top1"] == result.accuracy
    assert result.metrics["top3"] == (best == LABELS[:, np.newaxis]).any(axis=1).mean()
    counts = np.zeros((5, 5), int)
    for label, guess in zip(LABELS, best[:, 0], strict=True):
        counts[label, guess] += 1
    assert np.array(result.metrics["confusion"]).tolist() == counts.tolist()
    plain = trainer.evaluate((X, LABELS))
    assert (plain.loss, plain.correct, plain.metrics) == (result.loss, result.correct, {})


def test_ignored_labels() -> None:
    trainer = trainer_of(nn.CrossEntropyLoss(ignore_index=3))
    result = trainer.evaluate((X, LABELS), metrics="top1,confusion")
    assert result.metrics["top1"] == result.accuracy
    assert sum(map(sum, result.metrics["confusion"])) == (LABELS != 3).sum()


def test_values() -> None:
    trainer = trainer_of(nn.HuberLoss(), outputs=2)
    y = RNG.normal(size=(37, 2)).astype(np.float32)
    result = trainer.evaluate((X, y), metrics="mae")
    expected = np.abs(trainer.predict(X).astype(np.float64) - y).mean()
    assert result.metrics == {"mae": pytest.approx(expected, rel=1e-12)}


def test_images_as_outputs() -> None:
    """Targets of images are compared in the user's layout, not the arena's."""
    plan = at.plan(
        nn.Conv2d(3, 2, 1), input_shape=(3, 4, 5), batch_size=2, loss=nn.L1Loss(),
        optimizer=optim.SGD(lr=0.1), threads=1,
    )  # fmt: skip
    trainer = at.Trainer(plan, seed=2)
    x, y = (RNG.normal(size=(3, c, 4, 5)).astype(np.float32) for c in (3, 2))
    result = trainer.evaluate((x, y), metrics="mae")
    assert result.metrics["mae"] == pytest.approx(result.loss, rel=1e-6)


def test_metrics_that_the_plan_cannot_give() -> None:
    with pytest.raises(ArgumentError, match="'mae' compares outputs with targets"):
        trainer_of(nn.CrossEntropyLoss()).evaluate((X, LABELS), metrics="mae")


def test_a_row_without_numbers_is_named() -> None:
    x = X.copy()
    x[13, 2] = np.nan
    with pytest.raises(NonFiniteError, match=r"row 13 .*of the evaluation"):
        trainer_of(nn.CrossEntropyLoss()).evaluate((x, LABELS), metrics="top2")


def test_a_table_beyond_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(nn.CrossEntropyLoss(), outputs=20_000)
    labels = np.arange(37)
    assert trainer.evaluate((X, labels), metrics="top5").metrics["top5"] <= 1.0
    from armtrain import _engine

    monkeypatch.setattr(_engine, "memory_available", lambda: (1 << 30, "the test"))
    with pytest.raises(DoesNotFitError, match=r"need 19203200\d{3} bytes more"):
        trainer.evaluate((X, labels), metrics="confusion")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], at.Trainer]:
    """Return arguments of `evaluate` for a plan with weights on disk, and its trainer."""
    folder: Path = tmp_path_factory.mktemp("metrics")
    trainer = trainer_of(nn.CrossEntropyLoss())
    plan, weights, data = (str(folder / n) for n in ("n.plan", "n.safetensors", "d.npz"))
    trainer.plan.save(plan)
    trainer.save(weights)
    np.savez(data, x=X, y=LABELS)
    return ["evaluate", plan, "--weights", weights, "--data", f"npz:{data}"], trainer


def test_command_line(
    saved: tuple[list[str], at.Trainer], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, trainer = saved
    asked = "top2,confusion"
    result = trainer.evaluate((X, LABELS), metrics=asked)
    assert main([*arguments, "--metrics", asked, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["metrics"] == json.loads(json.dumps(result.metrics))
    assert main([*arguments, "--metrics", asked]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"top2 {100 * result.metrics['top2']:.2f} %"
    assert lines[2] == "confusion (rows: labels, columns: predicted)"
    assert lines[3].split() == ["0", "1", "2", "3", "4"]
    rows = [[int(cell) for cell in line.split()] for line in lines[4:]]
    assert rows == [[i, *row] for i, row in enumerate(result.metrics["confusion"])]


@pytest.mark.parametrize(
    ("metrics", "code", "message"),
    [("top", 2, "'top' is unknown; there are"), ("top6", 2, "'top6' of 5 classes")],
)
def test_command_line_refuses(
    saved: tuple[list[str], at.Trainer],
    capsys: pytest.CaptureFixture[str],
    metrics: str,
    code: int,
    message: str,
) -> None:
    try:
        ended: object = main([*saved[0], "--metrics", metrics])
    except SystemExit as error:
        ended = error.code
    assert (ended, message in capsys.readouterr().err) == (code, True)
