"""Models of the zoo with values made again or kept: the same bytes after training steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import optim
from armtrain.runtime.engine import engine_module
from armtrain.zoo import entry
from tests.integration.test_promises import RUN, digest, run_ok

LEVELS = engine_module().kernel_levels()
INDICES = {"gpt_tiny": 256}
"""Model of indices -> how many there are."""


def plans(name: str, batch_size: int, **more: object) -> list[at.Plan]:
    """Return the plan that makes values again, and the one that keeps them."""
    model = entry(name)
    return [
        at.plan(
            model.build(),
            input_shape=model.input_shape,
            batch_size=batch_size,
            loss=model.loss(),
            optimizer=optim.SGD(lr=0.01, momentum=0.9),
            threads=2,
            free_recompute=free_recompute,
            **more,  # type: ignore[arg-type]
        )
        for free_recompute in (True, False)
    ]


def trained(plan: at.Plan, name: str, level: str, threads: int) -> dict[str, bytes]:
    """Return all weights and statistics after a whole batch, a smaller one and a whole one."""
    trainer = at.Trainer(plan, seed=3, kernel_level=level, threads=threads)
    random = np.random.default_rng(4)
    for n in (plan.batch_size, plan.batch_size - 1, plan.batch_size):
        shape = (n, *plan.program.input_shape)
        x = random.normal(size=shape).astype(np.float32)
        if name in INDICES:
            x = random.integers(0, INDICES[name], shape).astype(np.float32)
            y = random.integers(0, INDICES[name], shape).astype(np.float32)
        else:
            y = random.integers(0, 10, n).astype(np.int32)
        trainer.step(x, y)
    return {key: value.tobytes() for key, value in trainer.state_dict().items()}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("name", "batch_size"),
    [("resnet18", 3), ("mobilenet_v2", 3), ("vgg16_bn", 3), ("gpt_tiny", 2), ("lenet", 5)],
)
def test_the_zoo(name: str, batch_size: int, level: str) -> None:
    less, kept = plans(name, batch_size)
    assert less.arena_bytes < kept.arena_bytes
    expected = trained(kept, name, level, 1)
    for threads in (1, 2):
        assert trained(less, name, level, threads) == expected


def test_frozen_parts() -> None:
    """The first stages frozen with their statistics: what is behind them is made again alone."""
    less, kept = plans("resnet18", 3, train_only=["layer3.*", "layer4.*", "fc.*"])
    assert less.recompute["ops"] > 0
    assert trained(less, "resnet18", LEVELS[-1], 2) == trained(kept, "resnet18", LEVELS[-1], 1)


def test_both_front_ends(tmp_path: Path) -> None:
    data = "random:samples=11,seed=2"
    digests = set()
    for plan in plans("resnet18", 4):
        path, out = tmp_path / "r.plan", tmp_path / "w.safetensors"
        plan.save(path)
        run_ok([str(RUN), str(path), "--data", data, "--epochs", "1", "--save", str(out)])
        digests.add(digest(out))
        trainer = at.Trainer(plan, seed=0)
        trainer.fit(data, epochs=1)
        trainer.save(str(out))
        digests.add(digest(out))
    assert len(digests) == 1
