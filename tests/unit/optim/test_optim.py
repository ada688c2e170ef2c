"""Optimisers: torch's rules, canonical texts and their parser."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtrain import optim

SMALLEST = 2.0**-126
FINITE = st.floats(SMALLEST, 1e6) | st.just(0.0)
BETA = st.floats(SMALLEST, 1.0, exclude_max=True) | st.just(0.0)


@pytest.mark.parametrize(
    ("optimizer", "text"),
    [
        (optim.SGD(), "sgd:lr=0.001"),
        (optim.SGD(lr=0.01, momentum=0.9), "sgd:lr=0.01,momentum=0.9"),
        (
            optim.SGD(lr=1, momentum=0.9, weight_decay=1e-4, nesterov=True),
            "sgd:lr=1.0,momentum=0.9,weight_decay=0.0001,nesterov=true",
        ),
        (optim.Adam(), "adam:lr=0.001"),
        (optim.Adam(lr=2e-3, betas=(0.8, 0.99)), "adam:lr=0.002,beta1=0.8,beta2=0.99"),
        (optim.AdamW(), "adamw:lr=0.001"),
        (
            optim.AdamW(betas=(0.8, 0.999), weight_decay=0.1),
            "adamw:lr=0.001,beta1=0.8,weight_decay=0.1",
        ),
        (optim.RMSprop(), "rmsprop:lr=0.01"),
        (
            optim.RMSprop(alpha=0.9, momentum=0.5, centered=True),
            "rmsprop:lr=0.01,alpha=0.9,momentum=0.5,centered=true",
        ),
        (optim.Adagrad(), "adagrad:lr=0.01"),
        (optim.Adagrad(lr_decay=0.1, eps=1e-8), "adagrad:lr=0.01,lr_decay=0.1,eps=1e-08"),
    ],
)
def test_texts(optimizer: optim.Optimizer, text: str) -> None:
    assert optimizer.text == text
    assert optim.parse_optimizer(text) == optimizer


@given(lr=FINITE, momentum=FINITE, dampening=FINITE, weight_decay=FINITE)
def test_sgd_text_round_trips(**options: Any) -> None:
    optimizer = optim.SGD(**options)
    assert optim.parse_optimizer(optimizer.text) == optimizer


@given(lr=FINITE, betas=st.tuples(BETA, BETA), eps=FINITE, weight_decay=FINITE)
def test_adam_text_round_trips(**options: Any) -> None:
    optimizer = optim.Adam(**options)
    assert optim.parse_optimizer(optimizer.text) == optimizer


TWINS = (optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad)


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_names_and_defaults_are_torchs(kind: type[optim.Optimizer]) -> None:
    torch = pytest.importorskip("torch", reason="compares with torch where it is installed")
    theirs = inspect.signature(getattr(torch.optim, kind.__name__).__init__).parameters
    for field in fields(kind):
        assert getattr(kind(), field.name) == theirs[field.name].default, field.name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.SGD(lr=-1.0), "lr needs a finite number from 0 to 1e\\+30, got -1.0"),
        (lambda: optim.SGD(lr=float("nan")), "lr needs"),
        (lambda: optim.SGD(lr=float("inf")), "lr needs"),
        (lambda: optim.SGD(lr="fast"), "needs a finite number .* got 'fast'"),  # type: ignore[arg-type]
        (lambda: optim.SGD(momentum=-0.1), "momentum needs"),
        (lambda: optim.SGD(lr=1e-50), "lr: 1e-50 is too small for a float32"),
        (lambda: optim.SGD(lr=1e39), "lr needs a finite number from 0 to 1e"),
        (lambda: optim.SGD(lr=10**400), "lr needs a finite number"),
        (lambda: optim.SGD(lr=True), "lr needs a finite number"),
        (lambda: optim.SGD(dampening=-1e39), "dampening needs a finite number from -1e"),
        (lambda: optim.Adam(betas=(0.9, 1e-50)), r"betas\[1\]: 1e-50 is too small"),
        (lambda: optim.Adam(eps=1e-50), "eps: 1e-50 is too small"),
        (lambda: optim.Adam(betas=0.9), "betas needs two numbers, got 0.9"),  # type: ignore[arg-type]
        (lambda: optim.SGD(weight_decay=-0.1), "weight_decay needs"),
        (lambda: optim.SGD(nesterov=True), "momentum > 0 and dampening 0"),
        (lambda: optim.SGD(nesterov=True, momentum=0.9, dampening=0.1), "dampening 0"),
        (
            lambda: optim.Adam(betas=(1.0, 0.9)),
            r"betas\[0\] needs .* from 0 to below 1, got 1.0",
        ),
        (lambda: optim.Adam(betas=(0.9,)), "two numbers"),  # type: ignore[arg-type]
        (lambda: optim.Adam(eps=-1e-8), "eps needs"),
        (
            lambda: optim.parse_optimizer("lion:lr=1"),
            "available are sgd, adam, adamw, rmsprop, adagrad",
        ),
        (lambda: optim.AdamW(betas=(0.9,)), "optim.AdamW: betas needs two numbers"),  # type: ignore[arg-type]
        (lambda: optim.AdamW(weight_decay=-0.1), "optim.AdamW: weight_decay needs"),
        (lambda: optim.RMSprop(alpha=1.1), "alpha needs a finite number from 0 to 1"),
        (lambda: optim.RMSprop(alpha=-0.1), "alpha needs"),
        (lambda: optim.RMSprop(momentum=-0.1), "optim.RMSprop: momentum needs"),
        (lambda: optim.Adagrad(lr_decay=-0.1), "optim.Adagrad: lr_decay needs"),
        (lambda: optim.Adagrad(initial_accumulator_value=-1), "initial_accumulator_value needs"),
        (lambda: optim.parse_optimizer("sgd:rate=1"), "not an option of sgd"),
        (lambda: optim.parse_optimizer("sgd:lr=1,lr=2"), "given twice"),
        (lambda: optim.parse_optimizer("sgd:lr=fast"), "'fast' is not a number"),
        (lambda: optim.parse_optimizer("sgd:lr=true"), "'true' is not a number"),
        (
            lambda: optim.parse_optimizer("sgd:momentum=0.9,nesterov=0.5"),
            "nesterov needs true or false, got '0.5'",
        ),
        (lambda: optim.parse_optimizer("rmsprop:centered=1"), "centered needs true or false"),
        (lambda: optim.SGD().with_options(beta=1.0), "has no 'beta'; it has lr, momentum"),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_parameters_are_not_an_argument() -> None:
    with pytest.raises(TypeError, match="keyword arguments only and no parameters"):
        optim.SGD([1, 2], lr=0.1)  # type: ignore[arg-type,misc]


def test_values_are_immutable() -> None:
    with pytest.raises(AttributeError):
        optim.SGD().lr = 1.0  # type: ignore[misc]
