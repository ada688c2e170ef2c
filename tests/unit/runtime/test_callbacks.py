"""Callbacks: when they are called, with what, and what happens when one fails."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from armtrain.errors import ArgumentError
from armtrain.runtime.callbacks import EVENTS, Callback, CallbackError, Callbacks
from tests.unit.runtime.fake_engine import FakeEngine
from tests.unit.runtime.test_loop import run


class Recorder(Callback):
    """Remembers every call; raises at `fail`, an event and how often it came before."""

    def __init__(self, fail: tuple[str, int] = ("", 0)) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.fail = fail

    def __getattribute__(self, name: str) -> Any:
        if name not in EVENTS:
            return super().__getattribute__(name)

        def remember(*args: Any) -> None:
            *place, logs = args
            before = sum(call[0] == name for call in self.calls)
            self.calls.append((name, tuple(place), logs))
            if self.fail == (name, before):
                raise ValueError("no more")

        return remember

    def names(self) -> list[str]:
        """Return the events in order."""
        return [name for name, _, _ in self.calls]


def test_order_and_arguments() -> None:
    seen = Recorder()
    history = run(FakeEngine(), count=5, batch=4, epochs=2, callbacks=Callbacks([seen]))
    epoch = ["on_epoch_begin", "on_step_end", "on_step_end", "on_epoch_end"]
    assert seen.names() == ["on_train_begin", *epoch, *epoch, "on_train_end"]
    assert seen.calls[0][2] == {"epochs": 2, "samples": 5}
    steps = [(place, logs["samples"]) for name, place, logs in seen.calls if name == "on_step_end"]
    assert steps == [((1,), 4), ((2,), 1), ((3,), 4), ((4,), 1)]
    ends = [(place, logs) for name, place, logs in seen.calls if name == "on_epoch_end"]
    assert ends == [((r.epoch,), r.to_json_dict()) for r in history]
    assert seen.calls[-1][2] == {"epochs": 2}


def test_one_method_is_enough_and_all_are_called_in_order() -> None:
    said: list[str] = []

    class One:
        def __init__(self, name: str) -> None:
            self.name = name

        def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
            said.append(f"{self.name}{epoch}")
            logs.clear()  # its own copy

    run(FakeEngine(), epochs=2, callbacks=Callbacks([One("a"), One("b")]))
    assert said == ["a1", "b1", "a2", "b2"]


@pytest.mark.parametrize(
    ("fail", "when", "position", "epoch"),
    [
        (("on_train_begin", 0), "", 0, 0),
        (("on_epoch_begin", 1), " at epoch 2", 0, 1),
        (("on_step_end", 1), " at step 2", 8, 0),
        (("on_step_end", 2), " at step 3", 10, 0),
        (("on_epoch_end", 0), " at epoch 1", 0, 1),
        (("on_train_end", 0), "", 0, 2),
    ],
)
def test_a_failure_is_named_and_leaves_a_checkpoint_to_go_on_from(
    tmp_path: Path, fail: tuple[str, int], when: str, position: int, epoch: int
) -> None:
    engine = FakeEngine()
    options = {"epochs": 2, "checkpoint": tmp_path, "resume": True}
    with pytest.raises(CallbackError) as caught:
        run(engine, callbacks=Callbacks([Recorder(fail)]), **options)
    assert str(caught.value) == (
        f"the callback Recorder.{fail[0]} failed{when}: ValueError: no more; a checkpoint is in "
        f"{tmp_path}, continue with resume=True"
    )
    assert isinstance(caught.value.__cause__, ValueError)
    again = FakeEngine()
    again.checkpoint_load(str(tmp_path))
    assert (again.state["position"], again.state["epoch"]) == (position, epoch)
    run(again, **options)
    whole = FakeEngine()
    run(whole, epochs=2)
    assert again.weight == whole.weight


def test_a_failure_without_a_directory_says_that_nothing_is_saved() -> None:
    notes = io.StringIO()
    with pytest.raises(CallbackError, match=r"without a checkpoint directory .* not saved"):
        run(
            FakeEngine(),
            epochs=1,
            notes=notes,
            callbacks=Callbacks([Recorder(("on_epoch_end", 0))]),
        )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "a list of objects"),
        ("abc", "a list of objects"),
        (Callback(), "a list of objects"),
        ([Callback(), object()], r"callbacks\[1\] has none of the methods on_train_begin"),
        ([Callback], r"callbacks\[0\] is the class Callback; give an object: Callback\(\)"),
    ],
)
def test_wrong_kinds(given: object, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        Callbacks(given)
