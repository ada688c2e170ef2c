"""A forked child is refused the parent's engine at once: it never waits for threads it lacks."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.runtime.progress import Quiet

X = np.ones((40, 1, 8, 8), np.float32)
Y = np.zeros(40, np.int64)
HANGS_AFTER_SECONDS = 120


def make_trainer() -> at.Trainer:
    """Return a trainer whose steps are large enough to be shared by two threads."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
    plan = at.plan(
        net,
        input_shape=(1, 8, 8),
        batch_size=64,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.01),
        threads=2,
    )
    return at.Trainer(plan, threads=2)


def in_child(job: Callable[[], str]) -> str:
    """Return what `job` returns in a forked child, 'no answer' when it waits for ever."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, job().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb", buffering=0) as pipe:
        answered, _, _ = select.select([pipe], [], [], HANGS_AFTER_SECONDS)
        answer = pipe.read().decode() if answered else "no answer"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return answer


def refusal(call: Callable[[], object]) -> str:
    """Return the error that a call raises."""
    try:
        call()
    except at.ArmtrainError as error:
        return f"{type(error).__name__}: {error}"
    return "no refusal"


CALLS: dict[str, Callable[[at.Trainer], object]] = {
    "predict": lambda t: t.predict(X),
    "evaluate": lambda t: t.evaluate((X, Y)),
    "step": lambda t: t.step(X, Y),
    "fit": lambda t: t.fit((X, Y), 1, progress=False),
    "state_dict": lambda t: t.state_dict(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_child_is_refused_with_the_way_out(name: str) -> None:
    trainer = make_trainer()
    said = in_child(lambda: refusal(lambda: CALLS[name](trainer)))
    assert said.startswith(f"EngineError: the engine was opened in process {os.getpid()}")
    assert "make a Trainer here" in said


@pytest.mark.parametrize("name", CALLS)
def test_a_child_forked_during_another_threads_call_is_refused(name: str) -> None:
    trainer, stop = make_trainer(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            trainer.predict(X)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(5):
            assert "EngineError" in in_child(lambda: refusal(lambda: CALLS[name](trainer)))
    finally:
        stop.set()
        thread.join()


class Forking(Quiet):
    """Forks a child in the middle of a run; it lives until it is killed."""

    def __init__(self) -> None:
        """Start without children."""
        super().__init__()
        self.children: list[int] = []

    def step(self, n: int, loss: float) -> None:
        """Fork."""
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        self.children.append(child)


def test_a_child_does_not_hold_the_checkpoint_directory(tmp_path: Path) -> None:
    trainer, forking = make_trainer(), Forking()
    try:
        trainer.fit((X, Y), 1, checkpoint=tmp_path, progress=forking)
        trainer.fit((X, Y), 2, checkpoint=tmp_path, resume=True, progress=False)
    finally:
        for child in forking.children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_a_child_ends_and_trains_on_its_own() -> None:
    trainers = [make_trainer()]
    want = trainers[0].predict(X)

    def own() -> str:
        trainers.clear()
        return str(np.array_equal(make_trainer().predict(X), want))

    assert in_child(own) == "True"
    assert np.array_equal(trainers[0].predict(X), want)
