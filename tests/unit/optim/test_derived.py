"""Subclasses of optimisers and schedules: values are taken over, code is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.errors import ArgumentError
from armtrain.optim.lr_scheduler import StepLR, check_schedule


@dataclass(frozen=True, kw_only=True)
class Slow(optim.SGD):
    """Other defaults."""

    lr: float = 1e-5
    momentum: float = 0.9


class Given(optim.Adam):
    """A constructor of its own."""

    def __init__(self, rate: float = 0.25) -> None:
        super().__init__(lr=self._half(rate))

    def _half(self, rate: float) -> float:
        return rate / 2


class WithStep(optim.SGD):
    """A method that torch's optimizers have."""

    def step(self) -> None:
        """Never called."""


class WithText(optim.AdamW):
    """A property of the base class."""

    @property
    def text(self) -> str:
        """Not what the plan says."""
        return "mine"


class Undecorated(optim.SGD):
    """A default that no constructor reads."""

    lr: float = 0.5


@dataclass(frozen=True, kw_only=True)
class MoreValues(optim.RMSprop):
    """A value that no step reads."""

    rho: float = 0.1


class Mixin:
    """Something beside."""

    def zero_grad(self) -> None:
        """Never called."""


class Mixed(Mixin, optim.Adagrad):
    """Takes a method from elsewhere."""


class Deeper(WithStep):
    """The method is the parent's."""


def plan(optimizer: Any, **options: Any) -> at.Plan:
    """Return the smallest plan."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    return at.plan(net, input_shape=(1, 2, 2), batch_size=2, loss=nn.CrossEntropyLoss(),
                   optimizer=optimizer, **options)  # fmt: skip


@pytest.mark.parametrize(
    ("optimizer", "same"),
    [
        (Slow(), optim.SGD(lr=1e-5, momentum=0.9)),
        (Slow(momentum=0.0), optim.SGD(lr=1e-5)),
        (Given(), optim.Adam(lr=0.125)),
        (Given(rate=0.5), optim.Adam(lr=0.25)),
    ],
    ids=repr,
)
def test_subclasses_with_other_values_are_their_class(optimizer: Any, same: Any) -> None:
    groups = [{"params": "1.bias", "lr": 0.5}]
    assert plan(optimizer).to_bytes() == plan(same).to_bytes()
    with_groups = plan(optimizer, param_groups=groups).to_bytes()
    assert with_groups == plan(same, param_groups=groups).to_bytes()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (WithStep, "step"),
        (WithText, "text"),
        (Undecorated, "lr"),
        (MoreValues, "rho"),
        (Mixed, "zero_grad"),
        (Deeper, "step"),
    ],
)
def test_what_would_have_no_effect_is_refused(kind: type[optim.Optimizer], name: str) -> None:
    with pytest.raises(ArgumentError, match=f"defines '{name}', which would have no effect"):
        plan(kind())


def test_the_refusal_names_class_and_way_out() -> None:
    with pytest.raises(ArgumentError) as caught:
        plan(WithStep())
    said = str(caught.value)
    assert said.startswith("WithStep, a subclass of optim.SGD, defines 'step'")
    assert "pass optim.SGD(...) itself, or leave 'step' out" in said


class Warm(StepLR):
    """A method that torch's schedules have."""

    def get_lr(self) -> float:
        """Never called."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Tenth(StepLR):
    """A default for what has none."""

    step_size: int = 10


def test_schedules_likewise() -> None:
    assert check_schedule(Tenth()) == (StepLR(step_size=10),)
    with pytest.raises(ArgumentError, match=r"Warm, a subclass of optim.lr_scheduler.StepLR, def"):
        check_schedule([Tenth(), Warm(step_size=1)])


class SGD:
    """Another library's."""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (optim.SGD, r"got the class SGD; call it, as in optim.SGD\(lr=0.01\)"),
        ("sgd:lr=0.1", r"got 'sgd:lr=0.1'; optim.parse_optimizer makes"),
        (SGD(), r"got [\w.]*test_derived\.SGD$"),
        (0.1, "got float$"),
        (None, "got NoneType$"),
    ],
    ids=repr,
)
def test_other_things_are_named(wrong: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        plan(wrong)
