"""Losses through the engine: what counts for loss and accuracy, and refusals of bad targets."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.errors import DataError

X = np.eye(4, dtype=np.float32)


def trainer_of(loss: nn.Loss, batch_size: int = 4) -> at.Trainer:
    """Return a trainer whose outputs for the rows of X are the columns of the weight."""
    plan = at.plan(
        nn.Linear(4, 3, bias=False),
        input_shape=(4,),
        batch_size=batch_size,
        loss=loss,
        optimizer=optim.SGD(lr=0.1),
        threads=1,
    )
    return at.Trainer(plan, seed=3)


def log_softmax(trainer: at.Trainer) -> Any:
    """Return the log-probabilities of the rows of X, in double."""
    logits = trainer.predict(X).astype(np.float64)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("batch_size", [4, 3])
def test_ignored_samples_count_neither_for_loss_nor_accuracy(batch_size: int) -> None:
    trainer = trainer_of(nn.CrossEntropyLoss(ignore_index=2), batch_size)
    logs = log_softmax(trainer)
    labels = logs[:, :2].argmax(axis=1)
    labels[1] = 2
    counted = [0, 2, 3]
    result = trainer.evaluate((X, labels))
    right = sum(int(logs[i].argmax() == labels[i]) for i in counted)
    assert result.loss == pytest.approx(-logs[counted, labels[counted]].mean(), rel=1e-6)
    assert (result.correct, result.accuracy) == (right, right / 3)


def test_weights_divide_by_those_of_the_labels() -> None:
    weights, labels = np.array([0.5, 3.0, 1.0]), np.array([0, 1, 1, 2])
    trainer = trainer_of(nn.CrossEntropyLoss(weights))  # type: ignore[arg-type]
    each = -log_softmax(trainer)[range(4), labels] * weights[labels]
    expected = each.sum() / weights[labels].sum()
    assert trainer.evaluate((X, labels)).loss == pytest.approx(expected, rel=1e-6)


def test_smoothing_is_a_mean_with_all_classes() -> None:
    labels = np.array([0, 1, 1, 2])
    trainer = trainer_of(nn.CrossEntropyLoss(label_smoothing=0.3))
    logs = log_softmax(trainer)
    expected = -(0.7 * logs[range(4), labels] + 0.3 * logs.mean(axis=1)).mean()
    assert trainer.evaluate((X, labels)).loss == pytest.approx(expected, rel=1e-6)


def test_a_batch_whose_classes_all_have_weight_0_is_refused() -> None:
    trainer = trainer_of(nn.NLLLoss((1.0, 0.0, 1.0)))
    with pytest.raises(DataError, match="labels of all 4 samples of this batch have weight 0"):
        trainer.step(X, np.ones(4, np.int32))


def test_sure_probabilities_are_labels() -> None:
    labels, options = np.array([0, 1, 1, 2]), {"weight": (0.5, 3.0, 1.0), "label_smoothing": 0.2}
    soft = trainer_of(nn.CrossEntropyLoss(**options, probabilities=True))  # type: ignore[arg-type]
    hard = trainer_of(nn.CrossEntropyLoss(**options))  # type: ignore[arg-type]
    weighted = np.array(options["weight"])[labels].mean()  # which labels divide by, not samples
    result = soft.evaluate((X, np.eye(3, dtype=np.float32)[labels]))
    assert result.loss == pytest.approx(hard.evaluate((X, labels)).loss * weighted, rel=1e-6)
    assert result.accuracy is None


def test_probabilities_learn_what_is_between() -> None:
    trainer = trainer_of(nn.CrossEntropyLoss(probabilities=True))
    target = np.full((4, 3), (0.5, 0.25, 0.25), np.float32)
    for _ in range(400):
        trainer.step(X, target)
    assert np.exp(log_softmax(trainer)) == pytest.approx(target, abs=0.02)


@pytest.mark.parametrize("bad", [-0.5, 1.5])
@pytest.mark.parametrize("loss", [nn.BCEWithLogitsLoss(), nn.CrossEntropyLoss(probabilities=True)])
def test_targets_beyond_one_are_refused(bad: float, loss: nn.Loss) -> None:
    trainer = trainer_of(loss)
    target = np.full((4, 3), 0.5, np.float32)
    target[2, 1] = bad
    with pytest.raises(DataError, match=rf"row 2 \(counted from 0\) has {bad} at element 1"):
        trainer.step(X, target)
    with pytest.raises(DataError, match=f"target {bad} of sample 2 in this batch, element 1"):
        trainer._engine.train_step(X, target, 4)


@pytest.mark.parametrize("bad", [0.0, 0.5, -2.0])
def test_targets_of_pairs_are_signs(bad: float) -> None:
    trainer = trainer_of(nn.CosineEmbeddingLoss())
    target = np.ones((4, 3), np.float32)
    target[1, 2] = bad
    with pytest.raises(DataError, match=rf"row 1 .* has {bad:g} .* needs 1 for pairs .* else"):
        trainer.step(X, target)
    with pytest.raises(DataError, match=f"target {bad:g} of sample 1 .* needs 1 for pairs .* else"):
        trainer._engine.train_step(X, target, 4)


def test_pairs_are_pulled_together_and_apart() -> None:
    class Pairs(nn.Module):
        """The cosine of two values after one layer."""

        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(4, 3)

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return nn.functional.cosine_similarity(self.encoder(x[:, 0]), self.encoder(x[:, 1]))

    plan = at.plan(
        Pairs(),
        input_shape=(2, 4),
        batch_size=6,
        loss=nn.CosineEmbeddingLoss(margin=0.2),
        optimizer=optim.Adam(lr=0.05),
        threads=1,
    )
    trainer = at.Trainer(plan, seed=3)
    one, other = np.triu_indices(4, 1)
    x, alike = np.stack([X[one], X[other]], 1), np.where(one // 2 == other // 2, 1, -1)
    target = alike.astype(np.float32)
    trainer.fit((x, target), epochs=200, progress=False)
    assert trainer.evaluate((x, target)).loss < 0.02
    found = trainer.predict(x)[:, 0]
    assert (found[alike == 1] > 0.9).all()
    assert (found[alike == -1] < 0.3).all()


def test_options_are_in_the_plan() -> None:
    plan = trainer_of(nn.CrossEntropyLoss((1, 2, 3), label_smoothing=0.1)).plan
    assert plan.program.loss == "cross_entropy:weight=1.0/2.0/3.0,label_smoothing=0.1"
    assert nn.parse_loss(plan.program.loss).text == plan.program.loss
    train = next(s for s in plan.program.steps if s.kind == "L")
    assert train.attrs == (0.1, -100, 1.0, 2.0, 3.0)


def test_the_ignored_label_is_torchs_unless_asked() -> None:
    """Losses without labels have no such attribute to read."""
    kinds = (nn.MSELoss(), nn.HuberLoss(), nn.BCEWithLogitsLoss(pos_weight=2.0))
    for loss in (*kinds, nn.CrossEntropyLoss(), nn.NLLLoss((1, 2, 3))):
        assert trainer_of(loss).info["ignored_label"] == -100
    assert trainer_of(nn.NLLLoss(ignore_index=1)).info["ignored_label"] == 1
    assert trainer_of(nn.NLLLoss(ignore_index=-1)).info["ignored_label"] == -1
    assert trainer_of_places(nn.CrossEntropyLoss()).info["ignored_label"] == -100
    assert trainer_of_places(nn.CrossEntropyLoss(ignore_index=1)).info["ignored_label"] == 1


def trainer_of_places(loss: nn.Loss, batch_size: int = 4) -> at.Trainer:
    """Return a trainer whose outputs are 3 classes of 2 places."""
    plan = at.plan(
        nn.Sequential(nn.Linear(4, 6, bias=False), nn.Unflatten(1, (3, 2))),
        input_shape=(4,),
        batch_size=batch_size,
        loss=loss,
        optimizer=optim.SGD(lr=0.1),
        threads=1,
    )
    return at.Trainer(plan, seed=3)


def test_labels_of_places_are_floats_and_their_mean_is_over_places() -> None:
    trainer, labels = trainer_of_places(nn.CrossEntropyLoss()), np.arange(8.0).reshape(4, 2) % 3
    logits = trainer.predict(X).astype(np.float64)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    at_labels = np.take_along_axis(logs, labels[:, np.newaxis].astype(int), axis=1)
    data = (X, labels.astype(np.float32))
    result = trainer.evaluate(data)
    assert result.loss == pytest.approx(-at_labels.mean(), rel=1e-6)
    assert result.accuracy is None
    losses = [trainer.step(*data) for _ in range(20)]
    assert losses[-1] < losses[0]
    trainer.fit("random:samples=8", epochs=1)  # whole numbers


@pytest.mark.parametrize("label", [3.0, -1.0, 0.5, 1e9])
def test_labels_of_places_out_of_range_are_refused(label: float) -> None:
    trainer, labels = trainer_of_places(nn.CrossEntropyLoss()), np.zeros((4, 2), np.float32)
    labels[2, 1] = label
    place = re.escape(f"0..2 in steps of 1, row 2 (counted from 0) has {label:g} at element 1")
    with pytest.raises(DataError, match=place):
        trainer.step(X, labels)
    with pytest.raises(DataError, match=rf"label {label:.10g} of place 5 .* 0 to 2"):
        trainer._engine.train_step(X, labels, 4)


@pytest.mark.parametrize("loss", [nn.NLLLoss(), nn.CrossEntropyLoss(probabilities=True)])
def test_other_losses_of_classes_take_no_places(loss: nn.Loss) -> None:
    with pytest.raises(at.ShapeError, match="give labels of places"):
        trainer_of_places(loss)


@pytest.mark.parametrize("batch_size", [4, 3, 1])
def test_a_batch_weighs_what_counts_in_it(batch_size: int) -> None:
    """One sample with all places, two with one, one with none; classes of different weight."""
    weights = (0.5, 2.0, 1.0)
    loss = nn.CrossEntropyLoss(weights, ignore_index=2, label_smoothing=0.1)
    trainer, whole = trainer_of_places(loss, batch_size), trainer_of_places(loss)
    labels = np.array([[0.0, 1.0], [2.0, 1.0], [2.0, 2.0], [0.0, 2.0]])
    logits = whole.predict(X).astype(np.float64)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    of_label = np.take_along_axis(logs, labels.astype(int)[:, np.newaxis], axis=1)[:, 0]
    weight = np.take(weights, labels.astype(int)) * (labels != 2)
    smooth = (np.reshape(weights, (3, 1)) * logs).mean(axis=1) * (labels != 2)
    expected = -(0.9 * weight * of_label + 0.1 * smooth).sum() / weight.sum()
    result = trainer.evaluate((X, labels))
    assert result.loss == pytest.approx(expected, rel=1e-6)
    assert result.counted == weight.sum() == 5.0
    history = trainer.fit((X, labels), 1, validation=(X, labels), progress=False)
    assert history.val_loss == [trainer.evaluate((X, labels)).loss]


def test_evaluations_of_parts_come_to_that_of_the_whole() -> None:
    trainer = trainer_of(nn.CrossEntropyLoss((0.5, 3.0, 1.0), ignore_index=2))
    labels = np.array([0, 1, 2, 0])
    parts = [trainer.evaluate((X[cut], labels[cut])) for cut in (slice(1), slice(1, 4))]
    assert [part.counted for part in parts] == [0.5, 3.5]
    mean = sum(part.loss * part.counted for part in parts) / sum(part.counted for part in parts)
    assert trainer.evaluate((X, labels)).loss == pytest.approx(mean, rel=1e-6)
    assert trainer_of(nn.MSELoss()).evaluate((X, np.zeros((4, 3), np.float32))).counted == 4.0
