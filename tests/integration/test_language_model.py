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


class Padded(nn.Module):
    """A layer over tokens of which 0 fills up what is shorter."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 8, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.head = nn.Linear(8, 9)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return logits (N, tokens, L)."""
        return self.head(self.layer(self.embed(x), mask=x)).transpose(1, 2)


def test_tokens_are_their_own_mask() -> None:
    plan = at.plan(
        Padded(),
        input_shape=(5,),
        batch_size=3,
        loss=nn.CrossEntropyLoss(ignore_index=0),
        optimizer=optim.AdamW(lr=1e-2),
    )
    trainer, x = at.Trainer(plan, seed=1), np.zeros((3, 5), np.float32)
    x[0], x[1, :2] = (3, 1, 4, 1, 5), (2, 6)  # and a text without a token
    losses = [trainer.step(x, x) for _ in range(100)]
    assert losses[-1] < 0.1 * losses[0]
    assert all(np.isfinite(values).all() for values in trainer.state_dict().values())
