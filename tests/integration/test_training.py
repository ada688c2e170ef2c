"""`Trainer` with the real engine: data in every form, batches of every size, weights in and out."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.data.digits import load_digits
from armtrain.io.safetensors import save_file


def small_net() -> nn.Module:
    """Return a small convolutional classifier of 8x8 digits."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10)
    )


def make_plan(net: nn.Module | None = None, batch_size: int = 16, **options: object) -> at.Plan:
    """Return a plan for digits, one thread, momentum."""
    arguments: dict[str, object] = {
        "input_shape": (1, 8, 8),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(lr=0.05, momentum=0.9),
        "threads": 1,
    }
    return at.plan(net or small_net(), batch_size=batch_size, **(arguments | options))


@pytest.fixture(scope="module")
def plan() -> at.Plan:
    return make_plan()


def weights(trainer: at.Trainer) -> dict[str, bytes]:
    """Return the bytes of all weights."""
    return {name: value.tobytes() for name, value in trainer.state_dict().items()}


def fitted(plan: at.Plan, data: object, **options: object) -> dict[str, bytes]:
    """Return the weights after one epoch."""
    trainer = at.Trainer(plan, seed=3)
    trainer.fit(data, 1, progress=False, **options)
    return weights(trainer)


def test_it_learns_and_reports(plan: at.Plan) -> None:
    trainer = at.Trainer(plan, seed=0)
    before = trainer.evaluate("digits:test")
    history = trainer.fit("digits", 3, validation="digits:test", progress=False)
    after = trainer.evaluate("digits:test")
    assert before.accuracy is not None
    assert before.accuracy < 0.3
    assert history.val_accuracy[-1] == after.accuracy
    assert history.val_loss[-1] == after.loss
    assert after.accuracy > 0.85
    assert history.train_loss[0] > history.train_loss[-1]
    assert [record.epoch for record in history] == [1, 2, 3]
    assert history[0].arena_bytes == plan.arena_bytes
    x, y = load_digits("test")
    right = int((trainer.predict(x).argmax(axis=1) == y).sum())
    assert right == after.correct


def test_all_forms_of_data_give_the_same_weights(plan: at.Plan, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (50, 8, 8), np.uint8)
    y = rng.integers(0, 10, 50)
    floats = x.astype(np.float32) / np.float32(255)
    want = fitted(plan, (x, y))
    assert fitted(plan, (floats, y.astype(np.uint8))) == want
    assert fitted(plan, (floats.astype(np.float64)[:, None], y[:, None])) == want
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "d.npz", x=x, y=y)
        assert fitted(plan, f"npz:{tmp_path / 'd.npz'}") == want
    head = struct.pack(">BBBBIII", 0, 0, 8, 3, 50, 8, 8)
    (tmp_path / "images").write_bytes(gzip.compress(head + x.tobytes()))
    labels = struct.pack(">BBBBI", 0, 0, 8, 1, 50) + y.astype(np.uint8).tobytes()
    (tmp_path / "labels").write_bytes(labels)
    assert fitted(plan, f"idx:{tmp_path / 'images'},{tmp_path / 'labels'}") == want


def test_random_data_depend_on_their_seed(plan: at.Plan) -> None:
    assert fitted(plan, "random:samples=40,seed=1") == fitted(plan, "random:samples=40,seed=1")
    assert fitted(plan, "random:samples=40,seed=1") != fitted(plan, "random:samples=40,seed=2")
    trainer = at.Trainer(plan)
    assert trainer.predict("random:").shape == (64, 10)


def test_last_batch_is_trained_exactly(plan: at.Plan) -> None:
    """An epoch of 20 is the steps of 16 and 4 in the order of the shuffle."""
    x, y = (a[:20] for a in load_digits("train"))
    trainer, by_hand = at.Trainer(plan, seed=4), at.Trainer(plan, seed=4)
    history = trainer.fit((x, y), 1, progress=False)
    from armtrain._engine import shuffle

    rows = np.empty(20, np.uint64)
    shuffle(4, 0, 20, 0, rows)
    index = rows.astype(int)
    losses = [by_hand.step(x[i], y[i]) * len(i) for i in (index[:16], index[16:])]
    assert weights(trainer) == weights(by_hand)
    assert history.train_loss == [sum(losses) / 20]


def test_predict_and_evaluate_any_number(plan: at.Plan) -> None:
    x, y = load_digits("test")
    trainer = at.Trainer(plan, seed=0)
    whole = trainer.predict(x[:35])
    assert whole.shape == (35, 10)
    assert np.array_equal(whole[:1], trainer.predict(x[:1]))
    parts = list(trainer.predict_batches(x[:35]))
    assert [len(p) for p in parts] == [16, 16, 3]
    losses = [trainer.evaluate((x[i : i + 1], y[i : i + 1])).loss for i in range(5)]
    assert trainer.evaluate((x[:5], y[:5])).loss == pytest.approx(np.mean(losses), rel=1e-6)


def test_larger_batch_than_planned_is_refused(plan: at.Plan) -> None:
    x, y = load_digits("test")
    trainer = at.Trainer(plan)
    with pytest.raises(at.ShapeError, match=r"17 samples is larger than the planned 16: split"):
        trainer.step(x[:17], y[:17])
    assert np.isfinite(trainer.step(x[:2], y[:2]))


def test_more_threads_than_planned_are_refused(plan: at.Plan) -> None:
    with pytest.raises(at.ArmtrainError, match=r"2.*1"):
        at.Trainer(plan, threads=2)


def test_unknown_kernel_level_is_refused(plan: at.Plan) -> None:
    with pytest.raises(at.EngineError, match="vec_z80"):
        at.Trainer(plan, kernel_level="vec_z80")


def test_bad_labels_are_refused_before_the_first_step(plan: at.Plan) -> None:
    x, y = load_digits("train")
    trainer = at.Trainer(plan, seed=0)
    before = weights(trainer)
    with pytest.raises(at.DataError, match="1-based"):
        trainer.fit((x, y + 1), 1, progress=False)
    with pytest.raises(at.DataError, match="row 3 "):
        trainer.fit((x[:4], np.array([0, 1, 2, -1])), 1, progress=False)
    with pytest.raises(at.DataError, match="1-based"):
        trainer.fit((x, y), 1, validation=(x, y + 1), progress=False)
    assert weights(trainer) == before


def test_lone_last_sample_under_batch_norm_is_refused_before_the_first_step() -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 4, 8), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 10)
    )
    x, y = load_digits("train")
    trainer = at.Trainer(make_plan(net), seed=0)
    before = weights(trainer)
    with pytest.raises(at.ShapeError, match=r"17 samples in batches of 16.*plan with batch 15"):
        trainer.fit((x[:17], y[:17]), 1, progress=False)
    assert weights(trainer) == before
    trainer.fit((x[:18], y[:18]), 1, progress=False)
    assert weights(trainer) != before


def test_regression(tmp_path: Path) -> None:
    plan = make_plan(
        nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)),
        input_shape=(4,),
        loss=nn.MSELoss(),
    )
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4))
    y = np.stack([x.sum(axis=1), x[:, 0] * x[:, 1]], axis=1)
    trainer = at.Trainer(plan, seed=0)
    history = trainer.fit((x, y), 20, validation=(x, y), progress=False)
    assert history.train_loss[-1] < history.train_loss[0] / 2
    assert history.val_accuracy == [None] * 20
    assert trainer.evaluate((x, y)).accuracy is None
    difference = trainer.predict(x) - y
    assert trainer.evaluate((x, y)).loss == pytest.approx(np.mean(difference**2), rel=1e-5)
    with pytest.raises(at.DataError, match="astype"):
        trainer.fit((x, y.astype(int)), 1, progress=False)


def test_not_finite_stops_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    plan = make_plan(optimizer=optim.SGD(lr=1e30))
    trainer = at.Trainer(plan, seed=0)
    with pytest.raises(at.NonFiniteError, match=r"learning rate.*\(batch \d of epoch 1; check"):
        trainer.fit("digits", 5, checkpoint=tmp_path, progress=False)
    assert not list(tmp_path.glob("*.ckpt"))
    x, y = load_digits("train")
    x[5] = np.nan
    with pytest.raises(at.NonFiniteError):
        at.Trainer(make_plan(), seed=0).fit((x, y), 1, progress=False)


def test_weights_out_and_in(plan: at.Plan, tmp_path: Path) -> None:
    trainer = at.Trainer(plan, seed=0)
    trainer.fit("random:samples=32", 1, progress=False)
    trainer.save(tmp_path / "c.safetensors")
    save_file(trainer.state_dict(), tmp_path / "py.safetensors")
    assert (tmp_path / "c.safetensors").read_bytes() == (tmp_path / "py.safetensors").read_bytes()
    loaded = at.load_weights(tmp_path / "c.safetensors")
    assert list(loaded) == ["0.bias", "0.weight", "4.bias", "4.weight"]
    assert loaded["0.weight"].shape == (4, 1, 3, 3)
    for way in ("file", "dict"):
        other = at.Trainer(plan, seed=9)
        assert weights(other) != weights(trainer)
        if way == "file":
            other.load(tmp_path / "c.safetensors")
        else:
            other.load_state_dict(loaded | {"bn.num_batches_tracked": np.array(3)})
        assert weights(other) == weights(trainer)


def test_unusable_states_are_refused(plan: at.Plan) -> None:
    trainer = at.Trainer(plan, seed=0)
    state = trainer.state_dict()
    before = weights(trainer)
    with pytest.raises(at.ShapeError, match=r"missing: 0\.bias; unknown: x"):
        trainer.load_state_dict(
            {k: v for k, v in state.items() if k != "0.bias"} | {"x": state["0.bias"]}
        )
    with pytest.raises(at.ShapeError, match=r"'0\.bias' has shape \(3,\), the plan \(4,\)"):
        trainer.load_state_dict(state | {"0.bias": np.zeros(3)})
    with pytest.raises(at.NonFiniteError, match=r"'0\.bias'"):
        trainer.load_state_dict(state | {"0.bias": np.full(4, np.nan)})
    assert weights(trainer) == before


def test_options_that_contradict_each_other(plan: at.Plan) -> None:
    trainer = at.Trainer(plan)
    with pytest.raises(at.ArmtrainError, match="checkpoint directory"):
        trainer.fit("random:", 1, resume=True)
    with pytest.raises(at.ArmtrainError, match="from 1 to"):
        trainer.fit("random:", 1, checkpoint="x", checkpoint_every=0)
    with pytest.raises(at.ArmtrainError, match="from 0 to"):
        trainer.fit("random:", -1)


def test_missing_plan_and_foreign_file(tmp_path: Path) -> None:
    with pytest.raises(at.StorageError, match="No such file"):
        at.Trainer(tmp_path / "none.plan")
    (tmp_path / "f.plan").write_bytes(b"hello")
    with pytest.raises(at.PlanError):
        at.Trainer(tmp_path / "f.plan")


@pytest.mark.own_process
def test_growth_stays_within_the_plan() -> None:
    """The process grows by the plan, the batch buffers and little else (MLP, 8 MiB budget)."""
    net = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    plan = make_plan(net, input_shape=(784,), batch_size=32, budget="8 MiB")
    trainer = at.Trainer(plan, seed=0)
    trainer.fit("random:samples=1600", 1, progress=False)
    growth = trainer.memory_growth()
    allowed = 1.1 * (plan.arena_bytes + trainer.buffer_bytes) + (1 << 20)
    assert plan.arena_bytes <= growth.growth_bytes + (64 << 10)
    assert growth.growth_bytes <= allowed


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300, 1j, "1"])
def test_weights_that_float32_cannot_hold_are_refused(plan: at.Plan, bad: object) -> None:
    trainer = at.Trainer(plan, seed=1)
    before = trainer.state_dict()
    name = next(iter(before))
    array = np.full(before[name].shape, bad)
    with pytest.raises(at.ArmtrainError, match=name):
        trainer.load_state_dict({**before, name: array})
    assert trainer.state_dict()[name].tobytes() == before[name].tobytes()
