"""Weights that are updated block by block: the memory, and the bits of the whole gradient."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim, zoo
from armtrain.ir.cost import product_flops
from armtrain.ir.ops import UPDATE_OF
from armtrain.ir.program import Role
from armtrain.passes.pipeline import compile_program
from armtrain.planfile.assemble import assemble
from armtrain.planfile.groups import param_groups
from armtrain.planfile.plan import Plan
from armtrain.runtime.engine import engine_module

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
BATCH, CLASSES = 6, 5
SHAPE = (24, 5, 4)
OPTIMIZERS = [
    optim.SGD(lr=0.1),
    optim.SGD(lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    optim.SGD(lr=0.1, momentum=0.9, nesterov=True),
    optim.Adam(lr=0.01, weight_decay=0.01),
    optim.AdamW(lr=0.01),
    optim.RMSprop(lr=0.01),
    optim.RMSprop(lr=0.01, centered=True, momentum=0.9, weight_decay=0.01),
    optim.Adagrad(lr=0.01, lr_decay=0.1, weight_decay=0.01),
]


def network() -> nn.Module:
    """Return convolutions, grouped and transposed ones among them, and linear layers."""
    return nn.Sequential(
        *(nn.Conv2d(24, 310, 3, padding=1), nn.ReLU(), nn.Conv2d(310, 48, (2, 3), stride=2)),
        *(nn.ConvTranspose2d(48, 160, 3), nn.ReLU(), nn.Conv2d(160, 240, 2, groups=2)),
        *(nn.Flatten(), nn.Tanh(), nn.Linear(240 * 3 * 2, 67), nn.Linear(67, CLASSES)),
    )


def plan_of(optimizer: Any, *, by_blocks: bool = True, threads: int = 1, **options: Any) -> Plan:
    """Return the plan of the network."""
    program = compile_program(
        network(),
        input_shape=SHAPE,
        batch_size=BATCH,
        loss=nn.CrossEntropyLoss(),
        optimizer=optimizer,
        threads=threads,
        by_blocks=by_blocks,
        **options,
    )
    return Plan.of(assemble(program))


def blocks_of(plan: Plan) -> set[str]:
    """Return the weights that are updated by blocks."""
    steps = [s for s in plan.program.steps if s.op in UPDATE_OF]
    return {plan.program.tensors[s.operands[0] or 0].name for s in steps}


def samples(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((count, *SHAPE)).astype(np.float32)
    return x, rng.integers(0, CLASSES, count).astype(np.int32)


def trained(plan: Plan, level: str | None = None) -> dict[str, bytes]:
    """Return weights and state after three steps, the last of a smaller batch."""
    engine = engine_module().Engine(plan.to_bytes(), seed=3, kernel_level=level)
    engine.initialize()
    for n in (BATCH, BATCH, BATCH - 2):
        engine.train_step(*samples(n), n)
    result = {}
    for tensor in plan.program.tensors:
        if tensor.role in (Role.WEIGHT, Role.FROZEN, Role.STATE):
            values = np.empty(tensor.dims, np.float32)
            engine.peek(tensor.id, values)
            result[tensor.name] = values.tobytes()
    return result


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("mlp", 3.1),
        ("linear_150528", 191.0),
        ("model_a_linear", 46.7),
        ("model_c_linear", 24.5),
        ("lstm_150528", 41.7),
        ("vgg16", 97.5),
        ("resnet18", 187.5),
    ],
)
def test_arenas(name: str, most: float) -> None:
    """MiB at batch 32, one thread: before, mlp had 4.25, linear_150528 363, vgg16 106.3."""
    entry = zoo.entry(name)
    plan = at.plan(
        entry.build(),
        input_shape=entry.input_shape,
        batch_size=32,
        loss=entry.loss(),
        optimizer=optim.SGD(lr=0.01),
        threads=1,
    )
    assert plan.arena_bytes <= most * MIB


@pytest.mark.parametrize("name", zoo.names())
def test_blocks_never_cost_memory_and_plans_stay_tight(name: str) -> None:
    entry, arenas = zoo.entry(name), {}
    for by_blocks in (False, True):
        program = compile_program(
            entry.build(),
            input_shape=entry.input_shape,
            batch_size=8,
            loss=entry.loss(),
            optimizer=optim.SGD(lr=0.01, momentum=0.9),
            by_blocks=by_blocks,
        )
        data = assemble(program)
        arenas[by_blocks] = data.arena_bytes
        assert data.arena_bytes <= 1.001 * data.proved_minimum_bytes
    assert arenas[True] <= arenas[False]


@pytest.mark.parametrize("level", engine_module().kernel_levels())
@pytest.mark.parametrize("limit", [None, 1e-3])
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: o.text)
def test_weights_and_state_have_the_bits_of_the_whole_gradient(
    optimizer: Any, limit: float | None, level: str
) -> None:
    whole = plan_of(optimizer, by_blocks=False, clip_value=limit)
    want = trained(whole, level)
    for threads in (1, 3):
        blocks = plan_of(optimizer, threads=threads, clip_value=limit)
        assert blocks_of(blocks) == {"0.weight", "2.weight", "3.weight", "5.weight", "8.weight"}
        assert blocks_of(whole) == set()
        got = trained(blocks, level)
        assert [name for name in want if got[name] != want[name]] == []


def test_an_update_by_blocks_counts_the_product_of_its_gradient() -> None:
    sgd = optim.SGD(lr=0.1)
    plans = [plan_of(sgd, by_blocks=by_blocks) for by_blocks in (False, True)]
    flops = [
        sum(product_flops(s, plan.program.tensors) for s in plan.program.steps) for plan in plans
    ]
    assert blocks_of(plans[1])
    assert flops[0] == flops[1] > 0


def test_frozen_parts_have_the_bits_of_the_whole_gradient() -> None:
    sgd, some = optim.SGD(lr=0.1, momentum=0.9), ["2.bias", "3.weight", "5.*"]
    blocks = plan_of(sgd, train_only=some)
    assert blocks_of(blocks) == {"3.weight", "5.weight"}
    assert trained(blocks) == trained(plan_of(sgd, by_blocks=False, train_only=some))


@pytest.mark.parametrize("limit", [None, 1e-3])
@pytest.mark.parametrize("first_by_blocks", [True, False])
def test_a_run_goes_on_under_a_plan_of_the_other_kind(
    first_by_blocks: bool, limit: float | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The steps differ, the weights do not: nothing is said of other settings."""
    adam, data = optim.Adam(lr=0.01), samples(BATCH + 2)
    plans = [plan_of(adam, by_blocks=kind, clip_value=limit)
             for kind in (first_by_blocks, not first_by_blocks)]  # fmt: skip
    unbroken, *parts = (at.Trainer(plan, seed=3) for plan in (plans[0], *plans))
    unbroken.fit(data, 4, progress=False)
    parts[0].fit(data, 2, checkpoint=tmp_path / "c", progress=False)
    parts[1].fit(data, 4, checkpoint=tmp_path / "c", resume=True, progress=True)
    said = "".join(capfd.readouterr())
    assert "resumed at step" in said
    assert "other settings" not in said
    for name, values in unbroken.state_dict().items():
        assert parts[1].state_dict()[name].tobytes() == values.tobytes()


def test_another_limit_is_another_setting(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A limit of a step by blocks counts as that of a step of its own."""
    adam, data = optim.Adam(lr=0.01), samples(BATCH)
    first = at.Trainer(plan_of(adam, clip_value=1e-3), seed=3)
    first.fit(data, 1, checkpoint=tmp_path / "c", progress=False)
    second = at.Trainer(plan_of(adam, clip_value=2e-3), seed=3)
    second.fit(data, 2, checkpoint=tmp_path / "c", resume=True, progress=True)
    assert "other settings" in "".join(capfd.readouterr())


def test_the_program_without_python_gives_the_same_weights(tmp_path: Path) -> None:
    sgd, saved = optim.SGD(lr=0.1, momentum=0.9), []
    for by_blocks in (True, False):
        plan, out = tmp_path / f"{by_blocks}.plan", tmp_path / f"{by_blocks}.safetensors"
        plan_of(sgd, by_blocks=by_blocks).save(plan)
        command = [ROOT / "build" / "armtrain-run", plan, "--data", "random:samples=20,seed=3"]
        command += ["--epochs=2", "--save", out]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        saved.append(out.read_bytes())
    assert saved[0] == saved[1]


def test_a_plan_tells_of_updates_by_blocks_as_of_others() -> None:
    groups = [{"params": "8.*", "lr": 0.5}]
    plans = [
        plan_of(optim.Adagrad(), by_blocks=kind, param_groups=groups) for kind in (True, False)
    ]
    told = [param_groups(plan.program) for plan in plans]
    assert told[0] == told[1]
    assert [group.optimizer for group in told[0]] == ["adagrad", "adagrad"]
    assert plan_of(optim.SGD(lr=0.1)).to_bytes() == plan_of(optim.SGD(lr=0.1)).to_bytes()
