"""Subclasses of losses: options are taken over, code is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.errors import ArgumentError


class Smoothed(nn.CrossEntropyLoss):
    """Another default, and a value of its own."""

    def __init__(self, smoothing: float, *, doubled: bool = True) -> None:
        super().__init__(label_smoothing=self._twice(smoothing) if doubled else smoothing)
        self.doubled = doubled

    def _twice(self, number: float) -> float:
        return 2.0 * number


class Named(nn.HuberLoss):
    """Nothing but a name."""


class WithForward(nn.MSELoss):
    """What torch's losses have."""

    def forward(self, y: Any, target: Any) -> Any:
        """Never called."""


class WithCall(nn.L1Loss):
    """What calls torch's losses."""

    def __call__(self, y: Any, target: Any) -> Any:
        """Never called."""


class WithText(nn.NLLLoss):
    """A property of the base class."""

    @property
    def text(self) -> str:
        """Not what the plan says."""
        return "mine"


class Deeper(WithForward):
    """The method is the parent's."""


def plan(loss: Any) -> at.Plan:
    """Return the smallest plan."""
    return at.plan(
        nn.Linear(4, 3), input_shape=(4,), batch_size=2, loss=loss, optimizer=optim.SGD(lr=0.1)
    )


@pytest.mark.parametrize(
    ("loss", "same"),
    [
        (Smoothed(0.125), nn.CrossEntropyLoss(label_smoothing=0.25)),
        (Smoothed(0.0), nn.CrossEntropyLoss()),
        (Named(delta=0.5), nn.HuberLoss(delta=0.5)),
    ],
    ids=repr,
)
def test_subclasses_with_other_options_are_their_class(loss: nn.Loss, same: nn.Loss) -> None:
    assert loss.text == same.text
    assert plan(loss).to_bytes() == plan(same).to_bytes()


@pytest.mark.parametrize(
    ("kind", "name"),
    [(WithForward, "forward"), (WithCall, "__call__"), (WithText, "text"), (Deeper, "forward")],
)
def test_what_would_have_no_effect_is_refused(kind: Callable[[], nn.Loss], name: str) -> None:
    with pytest.raises(ArgumentError, match=f"defines '{name}', which would have no effect"):
        plan(kind())


def test_the_refusal_names_class_and_way_out() -> None:
    with pytest.raises(ArgumentError) as caught:
        plan(Deeper())
    said = str(caught.value)
    assert said.startswith("WithForward, a subclass of nn.MSELoss, defines 'forward'")
    assert "Let the network's own forward compute" in said
    assert "pass nn.MSELoss(...) itself, or leave 'forward' out" in said


def test_a_function_in_place_of_a_method_is_refused() -> None:
    loss: Any = nn.KLDivLoss()
    with pytest.raises(ArgumentError, match="KLDivLoss: 'forward' would have no effect"):
        loss.forward = abs


class CrossEntropyLoss:
    """Another library's."""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (nn.MSELoss, r"got the class MSELoss; call it, as in nn.MSELoss\(\)$"),
        ("mse", "got 'mse'; nn.parse_loss makes a loss of a text"),
        (CrossEntropyLoss(), r"got [\w.]*test_derived_losses\.CrossEntropyLoss$"),
        (nn.Loss(), r"or nn.CosineEmbeddingLoss\(\), got armtrain.nn.loss_base.Loss$"),
        (None, "got NoneType$"),
    ],
    ids=repr,
)
def test_other_things_are_named(wrong: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        plan(wrong)
