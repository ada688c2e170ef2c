"""A side that a factor leaves at its size is copied, as PyTorch does."""

from __future__ import annotations

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim


@pytest.mark.parametrize(("mode", "shape"), [("linear", (1, 3)), ("bilinear", (1, 3, 3))])
def test_a_side_of_the_same_size_is_copied(mode: str, shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    net = nn.Sequential(
        nn.Upsample(scale_factor=1.3, mode=mode), nn.Flatten(), nn.Linear(size, size, bias=False)
    )
    trainer = at.Trainer(
        at.plan(
            net,
            input_shape=shape,
            batch_size=2,
            loss=nn.MSELoss(),
            optimizer=optim.SGD(lr=0.1),
            threads=1,
        )
    )
    trainer.load_state_dict({"2.weight": np.eye(size)})
    x = np.arange(2 * size, dtype=np.float32).reshape(2, *shape)
    assert (trainer.predict(x) == x.reshape(2, size)).all()
