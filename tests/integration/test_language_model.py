"""A small language model learns a text, and later bytes change nothing before them."""

from __future__ import annotations

import numpy as np

import armtrain as at
from armtrain import nn, optim
from armtrain.zoo.gpt import GptTiny

TEXT = np.frombuffer(b"the quick brown fox jumps over the lazy dog; " * 4, np.uint8)
LENGTH, SAMPLES = 24, 16


def windows() -> tuple[np.ndarray, np.ndarray]:
    """Return parts of the text, and the bytes that follow each of theirs."""
    starts = np.arange(SAMPLES)[:, np.newaxis] * 3 + np.arange(LENGTH)
    return TEXT[starts], TEXT[starts + 1].astype(np.float32)


def test_it_learns_a_text_that_repeats() -> None:
    plan = at.plan(
        GptTiny(128, LENGTH, width=32, layers=2, heads=4),
        input_shape=(LENGTH,),
        batch_size=SAMPLES,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.AdamW(lr=5e-3),
    )
    trainer, (x, y) = at.Trainer(plan, seed=1), windows()
    x = x.astype(np.float32)
    losses = [trainer.step(x, y) for _ in range(60)]
    assert losses[0] > 0.9 * np.log(128)
    assert losses[-1] < 0.2
    logits = np.asarray(trainer.predict(x))
    assert logits.shape == (SAMPLES, 128, LENGTH)
    right = logits.argmax(axis=1) == y
    assert right[:, 8:].mean() > 0.98
    changed = x.copy()
    changed[:, 12:] = 0
    before = np.asarray(trainer.predict(changed))[:, :, :12]
    np.testing.assert_array_equal(before, logits[:, :, :12])
