"""The independent checker refuses whatever the engine refuses: plans that lie in one place."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.planfile import format as fmt
from armtrain.planfile.check import findings
from armtrain.runtime.engine import engine_module
from tests.plan_edit import get_field, sign, with_field

RECORDS = (("header", fmt.HEADER), ("tensors", fmt.TENSOR), ("steps", fmt.STEP))
EDGES = [0, 1, 2, 3, 5, 6, 7, 14, 63, 64, 255, 2**16, 2**20 + 1, 2**29, 2**31 - 1, 2**31, 2**32 - 1]
REALS = [float("nan"), float("inf"), -1.0, 0.0, 1e-50, 1e39]


def convolutional() -> bytes:
    """Return a plan with clipping, two threads, groups and every kind of image layer."""
    net = nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 4, 3, groups=2), nn.AvgPool2d(2), nn.Dropout(0.2), nn.Flatten()),
        nn.Linear(4, 3),
    )
    return at.plan(
        net,
        input_shape=(2, 8, 8),
        batch_size=3,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.1, momentum=0.9),
        clip_norm=1.0,
        threads=2,
    ).to_bytes()


def linear() -> bytes:
    """Return a plan with the squared error and Adam."""
    net = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    return at.plan(
        net,
        input_shape=(5,),
        batch_size=3,
        loss=nn.MSELoss(),
        optimizer=optim.Adam(),
        threads=1,
    ).to_bytes()


def by_blocks() -> bytes:
    """Return a plan in which two weights are updated by blocks, clipped by value, with a group."""
    net = nn.Sequential(
        *(nn.Conv2d(24, 310, 3), nn.Flatten(), nn.Linear(2480, 32), nn.Tanh(), nn.Linear(32, 3)),
    )
    return at.plan(
        net,
        input_shape=(24, 4, 6),
        batch_size=3,
        loss=nn.MSELoss(),
        optimizer=optim.RMSprop(lr=0.1, momentum=0.5, centered=True),
        clip_value=0.1,
        threads=2,
        param_groups=[{"params": "2.*", "momentum": 0.0}],
    ).to_bytes()


def changed_field(content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Return the file with a field of one record changed."""
    section, record = rng.choice(RECORDS)
    fields = [f for f in record.fields if f.code != "s"]
    field = rng.choice(fields)
    count = 1 if section == "header" else get_field(content, "header", 0, f"{section}_count")
    index, element = rng.randrange(count), rng.randrange(field.count)
    old = get_field(content, section, index, field.name)
    bits = 8 * struct.calcsize(field.code)
    near = [v for v in (*EDGES, old + 1, old * 2, old + 64) if v < 2**bits]
    value = rng.choice(REALS if field.code == "d" else near)
    what = f"{section}[{index}].{field.name}[{element}] = {value}"
    return what, with_field(content, section, index, field.name, value, element)  # type: ignore[arg-type]


def changed_slot(content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Return the file with an attribute or an operand changed."""
    section, size = rng.choice([("attrs", 8), ("operands", 4)])
    start = get_field(content, "header", 0, f"{section}_offset")
    index = rng.randrange(get_field(content, "header", 0, f"{section}_count"))
    if section == "operands":
        raw = struct.pack("<I", rng.choice([rng.randrange(40), fmt.NONE_ID]))
    elif rng.random() < 0.5:
        raw = struct.pack("<d", rng.choice(REALS))
    else:
        raw = struct.pack("<q", rng.choice([*EDGES, -1, 2**62, -(2**63)]))
    place = start + size * index
    return f"{section}[{index}] = {raw!r}", sign(content[:place] + raw + content[place + size :])


def mutants(content: bytes, seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield what was changed, and the file."""
    rng = random.Random(seed)
    for _ in range(count):
        yield (changed_field if rng.random() < 0.7 else changed_slot)(content, rng)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", [convolutional, linear, by_blocks])
def test_what_the_engine_refuses_the_checker_names(make: object, seed: int) -> None:
    content = make()  # type: ignore[operator]
    assert findings(content) == []
    refused, missed = 0, []
    for what, mutant in mutants(content, seed, 100):
        try:
            engine_module().Engine(mutant, ignore_memory=True).close()
        except at.ArmtrainError as error:
            refused += 1
            try:
                found = findings(mutant)
            except at.PlanError:  # so damaged that it cannot be examined
                continue
            missed += [] if found else [f"{what}: {error}"]
    assert not missed, missed
    assert refused > 50
