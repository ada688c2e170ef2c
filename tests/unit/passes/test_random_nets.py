"""Random networks: whatever is wired together compiles, and its gradients are right.

Every program passes the verifier (inside the compiler); then gradients from the plan's own steps
are compared with central differences of the plan's own loss.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from armtrain import nn, optim
from armtrain.ir.program import Role
from armtrain.passes.pipeline import compile_program
from armtrain.planfile.assemble import assemble
from armtrain.runtime.reference import ReferenceExecutor

CHANNELS, SIZE, FEATURES, BATCH = 2, 3, 4, 3
IMAGE_OPS = ("conv", "grouped", "norm", "frozen_norm", "relu", "tanh", "pool", "mean", "add")
FEATURE_OPS = ("linear", "shared", "relu", "tanh", "add", "dropout")

Choice = tuple[str, int, int]
"""(operation, first operand, second operand); operands count back from the newest value."""


def choices(ops: tuple[str, ...], most: int) -> st.SearchStrategy[list[Choice]]:
    back = st.integers(0, 3)
    return st.lists(st.tuples(st.sampled_from(ops), back, back), max_size=most)


def image_layer(op: str) -> nn.Module:
    """Return a layer that keeps the shape of an image."""
    if op == "conv":
        return nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
    if op == "grouped":
        return nn.Conv2d(CHANNELS, CHANNELS, (1, 3), padding=(0, 1), groups=2, bias=False)
    if op == "norm":
        return nn.BatchNorm2d(CHANNELS)
    if op == "frozen_norm":
        return nn.BatchNorm2d(CHANNELS).eval()
    if op == "pool":
        return nn.MaxPool2d(3, 1, padding=1)
    return nn.AvgPool2d(3, 1, padding=1)


class RandomNet(nn.Module):
    """Images, then features; every value may be used again."""

    def __init__(self, images: list[Choice], features: list[Choice], frozen: int) -> None:
        super().__init__()
        self.images, self.features = images, features
        self.layers = nn.ModuleList()
        named = {"relu": nn.ReLU, "tanh": nn.Tanh, "add": nn.Identity}
        for op, _, _ in images:
            self.layers.append(named[op]() if op in named else image_layer(op))
        self.first = nn.Linear(CHANNELS * SIZE * SIZE, FEATURES)
        self.shared = nn.Linear(FEATURES, FEATURES)
        self.own = nn.ModuleList([nn.Linear(FEATURES, FEATURES) for _ in features])
        self.drop = nn.Dropout(0.3)
        self.last = nn.Linear(FEATURES, 2)
        for index, param in enumerate(self.parameters()):
            param.requires_grad_(frozen >> (index % 8) & 1 == 0)
        self.last.requires_grad_(True)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        values = [x]
        for (op, a, b), layer in zip(self.images, self.layers, strict=True):
            first, second = (values[-1 - min(i, len(values) - 1)] for i in (a, b))
            values.append(first + second if op == "add" else layer(first))
        values = [self.first(values[-1].flatten(1))]
        for (op, a, b), own in zip(self.features, self.own, strict=True):
            first, second = (values[-1 - min(i, len(values) - 1)] for i in (a, b))
            layers = {"linear": own, "shared": self.shared, "dropout": self.drop}
            if op == "add":
                values.append(first + second)
            elif op in layers:
                values.append(layers[op](first))
            else:
                values.append(first.relu() if op == "relu" else first.tanh())
        return self.last(values[-1])


def executor_of(net: nn.Module, **options: Any) -> ReferenceExecutor:
    program = compile_program(
        net,
        input_shape=(CHANNELS, SIZE, SIZE),
        batch_size=BATCH,
        loss=nn.MSELoss(),
        threads=1,
        **options,
    )
    roles = {t.name: t.role for t in program.tensors}
    trained = {n for n, p in net.named_parameters() if p.requires_grad}
    weights = {n for n, role in roles.items() if role == Role.WEIGHT}
    assert weights <= trained
    return ReferenceExecutor(assemble(program), seed=5)


def difference(executor: ReferenceExecutor, name: str, place: int, batch: tuple[Any, Any]) -> float:
    """Return the central difference of the loss along one element of a parameter."""
    start, losses = executor.snapshot(), []
    for sign in (1.0, -1.0):
        values = np.ascontiguousarray(executor.read(name))
        values.reshape(-1)[place] += sign * 1e-6
        executor.write(name, values)
        losses.append(executor.loss(*batch))
        executor.restore(start)
    return (losses[0] - losses[1]) / 2e-6


@settings(max_examples=30)
@given(
    images=choices(IMAGE_OPS, 6),
    features=choices(FEATURE_OPS, 5),
    frozen=st.integers(0, 255),
    clip=st.sampled_from([None, 0.1]),
)
def test_gradients(
    images: list[Choice], features: list[Choice], frozen: int, clip: float | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        net = RandomNet(images, features, frozen)
        executor = executor_of(net, optimizer=optim.SGD(lr=0.1), clip_norm=clip)
    rng = np.random.default_rng(3)
    batch = rng.normal(size=(BATCH, CHANNELS, SIZE, SIZE)), rng.normal(size=(BATCH, 2))
    # Away from the kinks that zero biases put values on.
    for name, param in net.named_parameters():
        executor.write(name, rng.normal(scale=0.5, size=param.shape))
    start = executor.snapshot()
    assert np.isfinite(executor.train_step(*batch))
    gradients = dict(executor.gradients)
    executor.restore(start)
    for name, gradient in gradients.items():
        place = int(rng.integers(gradient.size))
        expected = difference(executor, name, place, batch)
        found = gradient.reshape(-1)[place]
        assert abs(found - expected) <= 1e-6 + 1e-5 * abs(expected), (name, found, expected)
