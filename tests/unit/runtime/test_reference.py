"""The reference executor on a program written by hand: numbers, overlaps, random numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from armtrain.dtypes import DType, align_up
from armtrain.ir.ops import OpCode
from armtrain.ir.program import (
    Init,
    InitKind,
    Layout,
    Phase,
    Program,
    Role,
    Step,
    StorageId,
    Tensor,
    TensorId,
)
from armtrain.planfile.data import PlanData
from armtrain.runtime.reference import ReferenceExecutor
from armtrain.runtime.reference.arena import CellArena
from armtrain.runtime.reference.random import philox, stream_of_name, uniform
from armtrain.runtime.reference.table import FUNCTIONS
from armtrain.schedule.lifetime import lifetimes_of

BATCH, INPUTS, CLASSES = 3, 4, 5
LEARNING_RATE = 0.1
# name, role, dtype, dims, batched
TENSORS: tuple[tuple[str, Role, DType, tuple[int, ...], bool], ...] = (
    ("x", Role.INPUT, DType.F32, (BATCH, INPUTS), True),
    ("target", Role.TARGET, DType.I32, (BATCH,), True),
    ("fc.weight", Role.WEIGHT, DType.F32, (INPUTS, CLASSES), False),
    ("fc.bias", Role.WEIGHT, DType.F32, (CLASSES,), False),
    ("logits", Role.ACTIVATION, DType.F32, (BATCH, CLASSES), True),
    ("loss", Role.METRIC, DType.F64, (1,), False),
    ("dlogits", Role.DERIVATIVE, DType.F32, (BATCH, CLASSES), True),
    ("dw", Role.GRADIENT, DType.F32, (INPUTS, CLASSES), False),
    ("db", Role.GRADIENT, DType.F32, (CLASSES,), False),
)
# operation, kind, operands ('-' for none), attributes
STEPS: tuple[tuple[OpCode, str, str, tuple[float, ...]], ...] = (
    (OpCode.LINEAR_FWD, "F", "x fc.weight fc.bias logits -", ()),
    (OpCode.CROSS_ENTROPY_GRAD, "L", "logits target loss dlogits -", ()),
    (OpCode.LINEAR_GRAD_W, "CG", "x dlogits dw db -", ()),
    (OpCode.SGD_STEP, "AG", "fc.weight dw - -", (LEARNING_RATE, 0.0, 0.0, 0.0, 0)),
    (OpCode.SGD_STEP, "AG", "fc.bias db - -", (LEARNING_RATE, 0.0, 0.0, 0.0, 0)),
)


def program() -> Program:
    """Return one linear layer with cross-entropy and plain SGD; dlogits replaces logits."""
    ids = {name: TensorId(i) for i, (name, *_) in enumerate(TENSORS)}
    tensors = []
    for name, role, dtype, dims, batched in TENSORS:
        storage = StorageId(ids["logits" if name == "dlogits" else name])
        layout = Layout.plain(dims)
        if name == "fc.weight":
            layout = Layout(dims[::-1], dims[::-1], (1, 0))
        init = Init(InitKind.UNIFORM, -0.5, 0.5) if role == Role.WEIGHT else Init()
        tensors.append(Tensor(ids[name], name, role, dtype, dims, batched, storage, layout, init))
    steps = tuple(
        Step(op, Phase.TRAIN, tuple(ids.get(w) for w in operands.split()), attrs, "fc", kind)
        for op, kind, operands, attrs in STEPS
    )
    return Program(
        tuple(tensors), steps, "fc", BATCH, 1, "cross_entropy", "sgd:lr=0.1", None, (INPUTS,)
    )


def plan() -> PlanData:
    """Return the program with every storage at an address of its own."""
    lifetimes = lifetimes_of(program())
    offsets, end = [], 0
    for item in lifetimes.items:
        offsets.append(end)
        end += align_up(item.nbytes)
    return PlanData(program(), lifetimes, tuple(offsets), end, end, end, None, end, end, "", 0)


def batch(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n samples and labels."""
    generator = np.random.default_rng(0)
    return generator.normal(size=(n, INPUTS)), generator.integers(0, CLASSES, n)


def expected(w: np.ndarray, b: np.ndarray, x: np.ndarray, target: np.ndarray) -> tuple:
    """Return loss, weight and bias gradient of softmax regression (w in torch's layout)."""
    logits = x @ w.T + b
    exponentials = np.exp(logits)
    probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
    loss = -np.log(probabilities[np.arange(len(x)), target]).mean()
    difference = (probabilities - np.eye(CLASSES)[target]) / len(x)
    return loss, difference.T @ x, difference.sum(axis=0)


@pytest.mark.parametrize("n", [1, 2, BATCH])
def test_softmax_regression(n: int) -> None:
    executor = ReferenceExecutor(plan(), seed=7)
    w, b = executor.read("fc.weight"), executor.read("fc.bias")
    assert w.shape == (CLASSES, INPUTS)
    x, target = batch(n)
    loss, dw, db = expected(w, b, x, target)
    assert executor.train_step(x, target) == pytest.approx(loss, rel=1e-14)
    np.testing.assert_allclose(executor.gradients["fc.weight"], dw, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(executor.gradients["fc.bias"], db, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(executor.read("fc.weight"), w - LEARNING_RATE * dw, rtol=1e-14)
    assert executor.step == 1


def test_written_arrays_are_read_back() -> None:
    executor = ReferenceExecutor(plan())
    values = np.arange(CLASSES * INPUTS, dtype=float).reshape(CLASSES, INPUTS)
    executor.write("fc.weight", values)
    np.testing.assert_array_equal(executor.read("fc.weight"), values)


def test_snapshot_restores_everything() -> None:
    executor = ReferenceExecutor(plan())
    saved = executor.snapshot()
    first = executor.train_step(*batch(BATCH))
    executor.restore(saved)
    assert executor.train_step(*batch(BATCH)) == first


@pytest.mark.parametrize("moved", range(len(plan().offsets)))
def test_an_overlap_becomes_nan(moved: int) -> None:
    """Whatever live buffer is moved onto another one, the result is not a number."""
    good = plan()
    names = [good.program.tensors[item.tensors[0]].name for item in good.lifetimes.items]
    other = names.index("fc.weight" if names[moved] != "fc.weight" else "x")
    if good.lifetimes.items[moved].first >= good.lifetimes.items[other].last:
        other = names.index("fc.bias")
    offsets = list(good.offsets)
    offsets[moved] = offsets[other]
    executor = ReferenceExecutor(replace(good, offsets=tuple(offsets)))
    clean = ReferenceExecutor(good)
    results = []
    for one in (executor, clean):
        losses = [one.train_step(*batch(BATCH)) for _ in range(2)]
        results.append([*losses, *one.read("fc.weight").flat, *one.read("fc.bias").flat])
    assert not np.array_equal(results[0], results[1])


def test_buffers_of_different_types_notice_each_other() -> None:
    arena = CellArena(64)
    arena.write(0, 4, np.arange(4.0))
    arena.write(6, 1, np.array([9.0]))
    np.testing.assert_array_equal(arena.read(0, (4,), 4), [0.0, np.nan, 2.0, 3.0])
    with pytest.raises(IndexError, match="64"):
        arena.read(60, (2,), 4)


def test_every_operation_has_a_function() -> None:
    assert set(FUNCTIONS) == set(OpCode)


def test_philox_known_answers() -> None:
    """Words of the authors' own test vectors."""
    top = (1 << 64) - 1
    zeros = philox(0, 0, np.zeros(1, np.uint64))[0]
    ones = philox(top, top, np.full(1, top, np.uint64))[0]
    assert [f"{v:08x}" for v in zeros] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    assert [f"{v:08x}" for v in ones] == ["408f276d", "41c83b0e", "a20bc7c6", "6d5451fd"]


def test_uniform_and_names() -> None:
    numbers = uniform(3, stream_of_name("a"), 1000)
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    assert abs(numbers.mean() - 0.5) < 0.05
    assert stream_of_name("") == 0xCBF29CE484222325
    assert stream_of_name("a") == 0xAF63DC4C8601EC8C
