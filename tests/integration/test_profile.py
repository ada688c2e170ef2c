"""`bench --profile`: every step is timed, nothing is changed by that; rates beside roofs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim, zoo
from armtrain.cli.main import main
from armtrain.errors import EngineError, ShapeError
from armtrain.ir.program import Phase
from armtrain.runtime.engine import engine_module
from armtrain.runtime.profile import by_operation, profile_steps
from armtrain.runtime.roofs import measure_roofs


def small_plan() -> at.Plan:
    """Return the plan of a small convolutional network."""
    entry = zoo.entry("digits_cnn")
    return at.plan(
        entry.build(),
        input_shape=entry.input_shape,
        batch_size=4,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.01),
        threads=1,
    )


def test_timing_changes_no_bit_and_fills_the_training_phase_alone() -> None:
    plan = small_plan()
    x = np.random.default_rng(0).random((4, 1, 8, 8), np.float32)
    y = np.arange(4, dtype=np.int32)
    times = np.zeros(len(plan.program.steps), np.uint64)
    plain, timed = (engine_module().Engine(plan.to_bytes()) for _ in range(2))
    for engine in (plain, timed):
        engine.initialize()
    for _ in range(20):
        assert plain.train_step(x, y, 4) == timed.train_step(x, y, 4, times)
    training = np.array([step.phase is Phase.TRAIN for step in plan.program.steps])
    assert times[training].all()
    assert not times[~training].any()
    before = times.copy()
    timed.train_step(x, y, 4)
    np.testing.assert_array_equal(times, before)


def test_a_place_for_times_of_another_size_is_refused() -> None:
    plan = small_plan()
    engine = engine_module().Engine(plan.to_bytes())
    engine.initialize()
    x, y = np.zeros((4, 1, 8, 8), np.float32), np.zeros(4, np.int32)
    steps = len(plan.program.steps)
    with pytest.raises(ShapeError, match=f"nanoseconds has {steps - 1} elements"):
        engine.train_step(x, y, 4, np.zeros(steps - 1, np.uint64))
    with pytest.raises(ShapeError, match="nanoseconds must be uint64"):
        engine.train_step(x, y, 4, np.zeros(steps, np.float64))


def test_a_profile_has_every_step_once() -> None:
    plan = small_plan()
    profile = profile_steps(plan, 2, kernel_level="c")
    assert profile.kernel_level == "c"
    training = [s for s in plan.program.steps if s.phase is Phase.TRAIN]
    assert [w.name for w in profile.works] == [s.op.name.lower() for s in training]
    assert profile.seconds > 0
    operations = by_operation(profile.works)
    assert sum(w.steps for w in operations) == len(training)
    assert sum(w.flops for w in operations) == sum(w.flops for w in profile.works) > 0
    assert sum(w.seconds for w in operations) == pytest.approx(profile.seconds)
    assert [w.seconds for w in operations] == sorted((w.seconds for w in operations), reverse=True)


def test_multiply_adds_are_counted() -> None:
    module = engine_module()
    for level in module.kernel_levels():
        assert module.multiply_adds(level, 10) == 10 * module.multiply_adds(level, 1) > 0
    with pytest.raises(EngineError, match="'abacus' is unknown or this processor lacks it"):
        module.multiply_adds("abacus", 1)


def test_roofs_are_rates() -> None:
    roofs = measure_roofs("c", copy_bytes=1 << 16)
    assert roofs.flops_per_second > 0
    assert roofs.bytes_per_second > 0


def test_bench_profile_prints_operations(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "zoo:digits_cnn", "--batch", "2", "--repeat", "1", "--profile"]
    assert main([*words, "--kernel-level", "c"]) == 0
    text = capsys.readouterr().out
    assert "conv2d_grad_w" in text
    assert "GFLOP/s" in text
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sum(row["share"] for row in told["operations"]) == pytest.approx(1)
    assert len(told["steps"]) == sum(row["steps"] for row in told["operations"])
    assert {row["where"] for row in told["steps"]} >= {"conv1", "fc2"}
    product = next(row for row in told["steps"] if row["flops"])
    roof = told["roofs"]["flops_per_second"] * told["threads"]
    assert product["flops_per_second"] == pytest.approx(product["flops"] / product["seconds"])
    assert product["flops_of_roof"] == pytest.approx(product["flops_per_second"] / roof)
