"""`armtrain._engine`: what it takes, what it refuses, and that C and Python formulas agree."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest

import armtrain as at
from armtrain import _engine, nn, optim
from armtrain.errors import (
    DataError,
    EngineError,
    NonFiniteError,
    PlanError,
    ShapeError,
    error_from_status,
)


@pytest.fixture(scope="module")
def plan() -> bytes:
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    made = at.plan(
        net,
        input_shape=(2, 6, 6),
        batch_size=4,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.1, momentum=0.9),
        threads=2,
    )
    return made.to_bytes()


@pytest.fixture
def engine(plan: bytes) -> _engine.Engine:
    made = _engine.Engine(plan, seed=3)
    made.initialize()
    return made


X = np.linspace(0, 1, 4 * 72, dtype=np.float32).reshape(4, 2, 6, 6)
Y = np.array([0, 1, 2, 0], np.int32)


def test_info(engine: _engine.Engine) -> None:
    info = engine.info()
    expected = {
        "batch_size": 4,
        "n_classes": 3,
        "ignored_label": -100,
        "input_elements": 72,
        "target_elements": 1,
        "output_elements": 3,
        "target_is_label": True,
    }
    assert {k: info[k] for k in expected} == expected
    assert info["kernel_level"] == _engine.kernel_levels()[-1]
    assert len(bytes.fromhex(info["model_hash"])) == 32


def test_training_lowers_the_loss_and_counts_steps(engine: _engine.Engine) -> None:
    losses = [engine.train_step(X, Y, 4) for _ in range(40)]
    assert losses[-1] < losses[0]
    assert engine.get_state()["step"] == 40
    loss, correct = engine.evaluate_step(X[:3], Y[:3], 3)
    assert 0 <= correct <= 3
    assert loss > 0


def test_weights_keep_torch_layout(engine: _engine.Engine) -> None:
    """Convolution and folded linear weights come back as they went in."""
    for name, shape in (("0.weight", (4, 2, 3, 3)), ("3.weight", (3, 64))):
        value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        out = np.empty(shape, np.float32)
        engine.write(name, value)
        engine.read(name, out)
        assert out.tobytes() == value.tobytes()


REFUSALS: list[tuple[str, Callable[[_engine.Engine], object], type[Exception], str]] = [
    (
        "more than planned",
        lambda e: e.train_step(np.zeros((5, 72), np.float32), np.zeros(5, np.int32), 5),
        ShapeError,
        "5 samples, the plan at most 4",
    ),
    ("no sample", lambda e: e.train_step(X[:0], Y[:0], 0), ShapeError, "empty"),
    ("float64", lambda e: e.train_step(X.astype(float), Y, 4), ShapeError, "must be float32"),
    ("int64", lambda e: e.train_step(X, Y.astype(np.int64), 4), ShapeError, "must be int32"),
    ("short", lambda e: e.train_step(X[:3], Y, 4), ShapeError, "216 elements.*288 are needed"),
    ("strided", lambda e: e.train_step(X.T, Y, 4), ShapeError, "contiguous"),
    ("read-only", lambda e: e.read("0.bias", bytes(16)), ShapeError, "read-only|float32"),
    ("label", lambda e: e.train_step(X, Y + 1, 4), DataError, "sample 2 .* label 3"),
    ("NaN", lambda e: e.train_step(X * np.float32("nan"), Y, 4), NonFiniteError, "'x'"),
    ("name", lambda e: e.read("bias", np.empty(4, np.float32)), EngineError, "'bias'"),
    ("size", lambda e: e.read("0.bias", np.empty(3, np.float32)), ShapeError, "16 bytes, 12"),
    ("state", lambda e: e.set_state(speed=1), EngineError, "8 fields"),
]


@pytest.mark.parametrize(
    ("call", "error", "message"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS]
)
def test_refusals_change_nothing(
    engine: _engine.Engine,
    call: Callable[[_engine.Engine], object],
    error: type[Exception],
    message: str,
) -> None:
    before = engine.get_state()
    with pytest.raises(error, match=message):
        call(engine)
    assert engine.get_state() == before
    engine.train_step(X, Y, 4)


def test_opening_refuses(plan: bytes) -> None:
    with pytest.raises(PlanError, match="copy it again"):
        _engine.Engine(plan[:-1])
    with pytest.raises(EngineError, match="3 threads were asked for but the plan has memory for 2"):
        _engine.Engine(plan, threads=3)
    with pytest.raises(EngineError, match="'abacus'"):
        _engine.Engine(plan, kernel_level="abacus")
    with pytest.raises(EngineError, match="no weights yet"):
        _engine.Engine(plan).train_step(X, Y, 4)


def test_a_closed_engine_says_so(engine: _engine.Engine) -> None:
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.train_step(X, Y, 4)


def test_shuffle_is_a_permutation_in_any_pieces() -> None:
    whole, rest = np.empty(50, np.uint64), np.empty(20, np.uint64)
    _engine.shuffle(1, 2, 50, 0, whole)
    _engine.shuffle(1, 2, 50, 30, rest)
    assert sorted(whole.tolist()) == list(range(50))
    assert rest.tolist() == whole[30:].tolist()


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1000])
def test_crc32_is_zlibs(size: int) -> None:
    data = bytes(range(256)) * 4
    assert _engine.crc32(data[:size]) == zlib.crc32(data[:size])


def test_every_status_has_an_exception() -> None:
    assert isinstance(error_from_status(20, "x"), at.DoesNotFitError)
    assert isinstance(error_from_status(60, "x"), NonFiniteError)
