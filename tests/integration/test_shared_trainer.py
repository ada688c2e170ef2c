"""Threads that share one trainer take turns: nothing is mixed, refused or stopped."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim


@pytest.fixture
def trainer() -> Iterator[at.Trainer]:
    """Return a trainer while threads change as often as they can."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    plan = at.plan(
        net,
        input_shape=(1, 8, 8),
        batch_size=32,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.01),
        threads=1,
    )
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield at.Trainer(plan)
    sys.setswitchinterval(before)


def at_once(jobs: list[Callable[[], object]]) -> None:
    """Run each in a thread of its own, all started together; raise what one of them raises."""
    together = threading.Barrier(len(jobs))

    def start(job: Callable[[], object]) -> None:
        together.wait(60)
        job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        for done in [pool.submit(start, job) for job in jobs]:
            done.result(120)


def test_batches_of_two_threads_do_not_mix(trainer: at.Trainer) -> None:
    rng = np.random.default_rng(0)
    data = [rng.random((70, 1, 8, 8), np.float32) for _ in range(4)]
    want = [trainer.predict(x) for x in data]

    def predict(i: int) -> None:
        for _ in range(300):
            assert np.array_equal(trainer.predict(data[i]), want[i])

    at_once([lambda i=i: predict(i) for i in range(4)])  # type: ignore[misc]


def test_a_training_is_not_disturbed_by_other_threads(trainer: at.Trainer) -> None:
    other = at.Trainer(trainer.plan)
    other.fit("random:samples=640", 10, progress=False)
    x = np.ones((40, 1, 8, 8), np.float32)

    def watch() -> None:
        for _ in range(100):
            trainer.predict(x)
            trainer.state_dict()

    at_once([lambda: trainer.fit("random:samples=640", 10, progress=False), watch, watch])
    want = other.state_dict()
    assert all(np.array_equal(a, want[n]) for n, a in trainer.state_dict().items())
