"""What users pass by mistake, or as NumPy numbers, to a `Trainer`."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.errors import EngineError

X = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
Y = np.arange(9) % 3


def a_plan(net: nn.Module | None = None, **changes: Any) -> at.Plan:
    """Plan a classifier of 4 features."""
    inputs: dict[str, Any] = {
        "input_shape": (4,),
        "batch_size": 4,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(lr=0.1, momentum=0.9),
        "threads": 1,
    }
    return at.plan(net or nn.Linear(4, 3), **(inputs | changes))


@pytest.fixture(scope="module")
def trainer() -> at.Trainer:
    return at.Trainer(a_plan(), seed=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed needs an integer from 0 to 18446744073709551615, got -1"),
        ({"seed": 2**64}, "seed needs an integer from 0"),
        ({"seed": "3"}, "seed needs an integer .* got '3'"),
        ({"seed": 1.0}, "seed needs an integer .* got 1.0"),
        ({"threads": -1}, "threads .* needs an integer from 0 to 64, got -1"),
        ({"threads": 10**30}, "threads .* needs an integer"),
        ({"threads": True}, "threads .* needs an integer"),
        ({"kernel_level": 3}, "kernel_level needs the name of a level, got 3"),
    ],
)
def test_trainers_refuse(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        at.Trainer(a_plan(), **options)


@pytest.mark.parametrize("plan", [5, None, b"F.plan", 2.5])
def test_a_plan_is_a_plan_or_a_path(plan: Any) -> None:
    with pytest.raises(ValueError, match="plan needs a path"):
        at.Trainer(plan)


CALLS: list[tuple[Callable[[Any], object], str]] = [
    (lambda t: t.fit((X, Y), "3"), "epochs needs an integer from 0 .* got '3'"),
    (lambda t: t.fit((X, Y), -1), "epochs needs an integer from 0 .* got -1"),
    (lambda t: t.fit((X, Y), 2.5), "epochs needs an integer"),
    (lambda t: t.fit((X, Y), True), "epochs needs an integer"),
    (lambda t: t.fit((X, Y), 10**30), "epochs needs an integer"),
    (lambda t: t.fit(X, Y), r"epochs needs an integer, got a ndarray.*fit\(\(x, y\), epochs=3\)"),
    (lambda t: t.fit((X, Y), 1, checkpoint_every=0), "checkpoint_every needs an integer from 1"),
    (lambda t: t.fit((X, Y), 1, checkpoint_every=2), "need a checkpoint directory"),
    (lambda t: t.fit((X, Y), 1, resume=True), "need a checkpoint directory"),
    (lambda t: t.fit((X, Y), 1, checkpoint=7), "checkpoint needs a path"),
    (lambda t: t.fit((X, Y), 1, log=7), "log needs a path"),
    (lambda t: t.fit((X, Y), 1, progress="bar"), "progress needs True, False, None"),
    (lambda t: t.save(7), "path needs a path"),
    (lambda t: t.load(None), "path needs a path"),
    (lambda t: t.load_state_dict([1]), "a state is a mapping of names to arrays, got list"),
]


@pytest.mark.parametrize(("call", "message"), CALLS)
def test_calls_refuse(
    trainer: at.Trainer, call: Callable[[at.Trainer], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call(trainer)
    assert isinstance(caught.value, at.ArmtrainError)


DATA: list[tuple[Callable[[Any], object], str]] = [
    (lambda t: t.fit(X, 1), r"has no targets \(y\), only inputs: give both, as \(x, y\)"),
    (lambda t: t.evaluate(X), "has no targets"),
    (lambda t: t.fit(5, 1), r"data of type int are unknown; give arrays \(x, y\)"),
    (lambda t: t.fit(None, 1), "data of type NoneType are unknown"),
    (lambda t: t.fit((X, Y, Y), 1), r"a pair of arrays \(x, y\), 3 were given"),
    (lambda t: t.fit((X, None), 1), "y is a single number"),
    (lambda t: t.fit(([[1.0], [1.0, 2.0]], Y), 1), "x is no array of samples of one shape"),
    (lambda t: t.predict([[1.0], [1.0, 2.0]]), "x is no array of samples of one shape"),
    (lambda t: t.predict({"x": X}), "data of type dict are unknown"),
    (lambda t: t.predict(f"random:samples={2**70}"), "samples=N"),
    (lambda t: t.predict(f"random:seed={2**64}"), "seed=S"),
    (lambda t: t.predict("random:samples=" + "9" * 5000), "samples=N"),
]


@pytest.mark.parametrize(("call", "message"), DATA)
def test_data_are_refused(
    trainer: at.Trainer, call: Callable[[at.Trainer], object], message: str
) -> None:
    with pytest.raises(at.DataError, match=message):
        call(trainer)


def test_samples_that_are_single_numbers(trainer: at.Trainer) -> None:
    with pytest.raises(at.ShapeError, match=r"reshape the data to \(n, 4\)"):
        trainer.predict(np.zeros(9, np.float32))


def test_numpy_numbers_are_numbers(tmp_path: Path) -> None:
    plain = at.Trainer(a_plan(), seed=3, threads=1)
    plain.fit((X, Y), 2, progress=False, checkpoint=tmp_path / "a", checkpoint_every=2)
    plan = a_plan(
        nn.Linear(np.int64(4), np.int32(3)),
        input_shape=np.array([4]),
        batch_size=np.int32(4),
        threads=np.int64(1),
        optimizer=optim.SGD(lr=np.float64(0.1), momentum=0.9),
        budget=np.int64(2**20),
    )
    numpy = at.Trainer(plan, seed=np.uint64(3), threads=np.int16(1))
    numpy.fit(
        (X, Y),
        np.int64(2),
        progress=False,
        checkpoint=tmp_path / "b",
        checkpoint_every=np.int8(2),
    )
    for name, value in plain.state_dict().items():
        assert numpy.state_dict()[name].tobytes() == value.tobytes()


def test_lists_are_arrays(trainer: at.Trainer) -> None:
    expected = trainer.predict(X)
    assert trainer.predict(X.tolist()).tobytes() == expected.tobytes()
    assert trainer.evaluate((X.tolist(), Y.tolist())) == trainer.evaluate((X, Y))


def test_views_are_short_and_tables_readable(trainer: at.Trainer) -> None:
    plan = trainer.plan
    assert len(repr(plan)) < 120
    assert plan.model_hash[:12] in repr(plan)
    assert f"arena {plan.arena_bytes:,d} B" in repr(plan)
    assert "largest at the fullest step" in str(plan)
    assert trainer.info["model_hash"] == plan.model_hash
    history = at.Trainer(plan).fit((X, Y), 2, validation=(X, Y), progress=False)
    lines = str(history).split("\n")
    assert len(lines) == 3
    assert lines[0].split() == ["epoch", "train", "loss", "val", "loss", "accuracy", "seconds"]
    assert [line.split()[0] for line in lines[1:]] == ["1", "2"]
    assert repr(history).startswith("<History of 2 epoch(s), the last: train loss ")


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda f: f.__name__)
def test_trainers_are_neither_copied_nor_pickled(
    make: Callable[[Any], object], trainer: at.Trainer
) -> None:
    with pytest.raises(EngineError, match=r"running engine .* save\(path\), make another Trainer"):
        make(trainer)


def test_a_step_that_overflows_changes_no_weight_and_no_state() -> None:
    """Running statistics have taken the batch in by then, which the documentation says."""
    net = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))
    trainer = at.Trainer(a_plan(net, input_shape=(1, 2, 2)), seed=0)
    x = np.random.default_rng(1).normal(size=(4, 1, 2, 2)).astype(np.float32)
    trainer.step(x, Y[:4])
    state = trainer._engine.get_state()
    names = [t.name for t in trainer.plan.program.tensors if t.role.name in ("WEIGHT", "STATE")]
    assert any("momentum" in name for name in names)

    def content() -> dict[str, bytes]:
        kept = {}
        for tensor in trainer.plan.program.tensors:
            if tensor.name in names:
                array = np.empty(tensor.layout.shape, np.float32)
                trainer._engine.read(tensor.name, array)
                kept[tensor.name] = array.tobytes()
        return kept

    before = content()
    with pytest.raises(at.NonFiniteError, match="changed no weight"):
        trainer.step(np.clip(x, -1, 1) * np.float32(3e38), Y[:4])
    assert content() == before
    assert trainer._engine.get_state() == state
