"""Every limit of the engine is the planner's and the checker's limit too."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from armtrain import nn, optim
from armtrain.compiler import plan
from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.ops import OPS, AttrSpec, OpCode
from armtrain.ir.shapes import infer_shape
from armtrain.limits import LIMITS, MAX_DIM, MAX_ROWS, MAX_SIDE, MAX_THREADS, MAX_WINDOW
from armtrain.planfile.check import findings
from armtrain.planfile.plan import Plan
from tests.ops.arithmetic_cases import ARITHMETIC
from tests.ops.attention_cases import ATTENTION
from tests.ops.block_cases import BLOCKS
from tests.ops.cases import make_plan
from tests.ops.embedding_cases import EMBEDDINGS
from tests.ops.image_cases import IMAGES
from tests.ops.movement_cases import MOVEMENT
from tests.ops.norm_cases import SAMPLE_NORMS
from tests.ops.places_cases import PLACES
from tests.plan_edit import get_field, sign, with_field


def a_plan(**changes: Any) -> Plan:
    """Plan a network that has every kind of attribute but those of other optimisers."""
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.MaxPool2d(2),
        nn.AvgPool2d(2),
        nn.Dropout(0.2),
        nn.BatchNorm2d(4).eval(),
        *(nn.LeakyReLU(), nn.ELU(), nn.Softplus(), nn.Softmax(1), nn.LogSoftmax(1)),
        nn.Flatten(),
        nn.Linear(16, 3),
    )
    inputs: dict[str, Any] = {
        "input_shape": (2, 8, 8),
        "batch_size": 3,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(lr=0.1, momentum=0.9),
        "clip_norm": 1.0,
    }
    return plan(net, **(inputs | changes))


def with_attr(content: bytes, place: int, slot: AttrSpec, value: float) -> bytes:
    """Return the file with one attribute changed, signed again."""
    changed = bytearray(content)
    start = get_field(content, "header", 0, "attrs_offset") + 8 * place
    code, kind = ("<q", int) if slot.kind == "i" else ("<d", float)
    struct.pack_into(code, changed, start, kind(value))
    return sign(bytes(changed))


def outside(slot: AttrSpec) -> list[float]:
    """Return values next to the range of an attribute, and some that no float32 holds."""
    if slot.kind == "i":
        ends = [slot.low - 1, slot.high + 1]
        return [v for v in ends if -(2**63) <= v < 2**63]
    below = slot.low - 1e-3 if abs(slot.low) < 1 else 1.1 * slot.low
    return [float("nan"), float("inf"), 1e39, 1e-50, below, slot.high * 1.1]


def attr_places(made: Plan) -> list[tuple[int, OpCode, AttrSpec]]:
    """Return (index in the attrs section, operation, slot) of every attribute of a plan."""
    places, index = [], 0
    for step in made.program.steps:
        for slot in OPS[step.op].slots(len(step.attrs)):
            places.append((index, step.op, slot))
            index += 1
    return places


_IMAGES = ("conv_transpose", "nearest_scale", "bilinear_smaller")


def test_every_attribute_outside_its_range_is_found_by_the_checker_and_the_engine() -> None:
    engine = pytest.importorskip("armtrain._engine", reason="the engine is not built")
    seen = set()
    others = (
        *(optim.Adam(lr=0.1), optim.AdamW(), optim.Adagrad()),
        optim.RMSprop(momentum=0.9, centered=True),
    )
    weights = (0.5, 1.0, 2.0)
    losses = (
        *(nn.HuberLoss(), nn.KLDivLoss(), nn.BCEWithLogitsLoss(pos_weight=weights)),
        *(nn.CrossEntropyLoss(weights, label_smoothing=0.1), nn.NLLLoss(weights)),
        *(nn.CrossEntropyLoss(weights, probabilities=True), nn.CosineEmbeddingLoss()),
    )
    for made in (
        a_plan(),
        *(make_plan(case) for case in (*MOVEMENT.values(), *ARITHMETIC.values())),
        make_plan(SAMPLE_NORMS["layernorm"]),
        *(make_plan(case) for name, case in EMBEDDINGS.items() if "rows" in name),
        make_plan(EMBEDDINGS["embedding"]),
        *(make_plan(IMAGES[n]) for n in (*_IMAGES, "batchnorm_again")),
        *(make_plan(case) for case in (ATTENTION["attention"], PLACES["places_weighted"])),
        *(make_plan(case) for case in BLOCKS.values()),
        *(a_plan(optimizer=other, clip_norm=None, clip_value=1.0) for other in others),
        *(a_plan(loss=loss) for loss in losses),
    ):
        content = made.to_bytes()
        assert findings(content) == []
        for place, op, slot in attr_places(made):
            if (op, slot.name) in seen:
                continue
            seen.add((op, slot.name))
            for value in outside(slot):
                bad = with_attr(content, place, slot, value)
                text = "; ".join(findings(bad))
                assert slot.name in text, (op, slot, value)
                with pytest.raises(engine_errors(), match=slot.name.partition("[")[0]):
                    engine.Engine(bad)
    ranged = {(c, a.name) for c, s in OPS.items() for a in s.attrs if a.name != "stream"}
    never = {op for op, _ in ranged - seen}
    assert never <= {OpCode.CONV2D_GRAD_X}, never


def engine_errors() -> type[Exception]:
    """Return the class of a damaged plan's error."""
    from armtrain.errors import PlanError

    return PlanError


HEADER_LIMITS = [
    ("threads", "MAX_THREADS", "threads: 65"),
    ("batch_size", "MAX_DIM", "batch: 2147483648"),
    ("arena_bytes", "MAX_ARENA_BYTES", "bytes of arena: 137438953"),
]


@pytest.mark.parametrize(("field", "limit", "message"), HEADER_LIMITS)
def test_header_limits(field: str, limit: str, message: str) -> None:
    engine = pytest.importorskip("armtrain._engine", reason="the engine is not built")
    most = next(entry.value for entry in LIMITS if entry.name == limit)
    step = 64 if field == "arena_bytes" else 1
    bad = with_field(a_plan().to_bytes(), "header", 0, field, most + step)
    assert message in "; ".join(findings(bad))
    with pytest.raises(engine_errors(), match=str(most + step)):
        engine.Engine(bad)
    edge = "; ".join(findings(with_field(a_plan().to_bytes(), "header", 0, field, most)))
    assert "are possible" not in edge


def test_the_largest_number_of_threads_is_planned_checked_and_opened() -> None:
    engine = pytest.importorskip("armtrain._engine", reason="the engine is not built")
    content = a_plan(threads=MAX_THREADS).to_bytes()
    assert findings(content) == []
    assert engine.Engine(content, threads=1).info()["threads"] == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threads": MAX_THREADS + 1}, "threads needs an integer from 1 to 64, got 65"),
        ({"threads": 2**70}, "threads needs an integer from 1 to 64"),
        ({"threads": -1}, "threads needs"),
        ({"threads": 1.0}, "threads needs"),
        ({"batch_size": MAX_DIM + 1}, "batch_size needs an integer from 1 to 2147483647"),
        ({"batch_size": 10**30}, "batch_size needs"),
        ({"input_shape": (2, 8, 2**31)}, "input_shape needs"),
        ({"clip_norm": 1e-50}, "clip_norm.* got 1e-50"),
        ({"clip_norm": 1e39}, "clip_norm.* got 1e\\+39"),
        ({"clip_norm": 0}, "clip_norm.* got 0"),
        ({"clip_norm": None, "clip_value": 1e-50}, "clip_value.* got 1e-50"),
        ({"clip_norm": None, "clip_value": -1.0}, "clip_value.* got -1.0"),
        ({"clip_value": 0.5}, "clip_norm=1.0 and clip_value=0.5 were both given"),
        ({"clip_norm": float("nan")}, "clip_norm.* got nan"),
        ({"budget": 2**64}, "is more than a plan can record"),
        ({"budget": True}, "no byte count"),
        ({"budget": "1" * 5000}, "no byte count"),
        ({"board": "raspberypi-4b"}, "similar are raspberrypi-4b"),
        ({"board": 4}, "a board is an id or the path of a profile, got 4"),
        ({"train_only": 4}, "got 4"),
        ({"loss": "mse"}, "loss needs nn"),
        ({"optimizer": optim.SGD}, "optimizer needs optim.SGD"),
    ],
)
def test_the_planner_refuses_with_the_number_and_the_limit(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        a_plan(**changes)
    assert isinstance(caught.value, ValueError)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["stride", "padding", "dilation", "kernel_size"])
def test_windows_end_at_the_limit(name: str) -> None:
    most: dict[str, Any] = {"kernel_size": 1} | {name: MAX_WINDOW}
    nn.Conv2d(1, 1, **most)
    with pytest.raises(ArgumentError, match=f"{name} needs an integer from . to {MAX_WINDOW}"):
        nn.Conv2d(1, 1, **(most | {name: MAX_WINDOW + 1}))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 1, MAX_SIDE + 1, 1), "sides of 536,870,911"),
        ((2, 1, 2**20, 2**11), "2,147,483,647 pixels"),
        ((1, MAX_DIM + 1), "is larger than 2147483647"),
    ],
)
def test_values_with_too_many_pixels(shape: tuple[int, ...], message: str) -> None:
    relu = nn.trace(nn.ReLU(), (1,), 1).nodes[-1].attrs
    with pytest.raises(ShapeError, match=message):
        infer_shape("layer", relu, (shape,), {})


def test_the_largest_values_are_possible() -> None:
    relu = nn.trace(nn.ReLU(), (1,), 1).nodes[-1].attrs
    for shape in ((1, 1, MAX_SIDE, 1), (MAX_ROWS, 1, 1, 1), (1, MAX_DIM)):
        assert infer_shape("layer", relu, (shape,), {}) == shape


def test_c_has_no_limits_of_its_own(root: Path) -> None:
    """What the C side compares with comes from the generated header."""
    text = (root / "kernels" / "include" / "art_limits.h").read_text()
    found = {name: int(value) for name, value in re.findall(r"ART_(MAX_\w+) (\d+)u", text)}
    assert found == {limit.name: limit.value for limit in LIMITS}
    for path in (root / "kernels").rglob("*.[ch]"):
        if path.name != "art_limits.h":
            assert not re.search(r"#define \w+_MAX_(THREADS|ARENA|RECORDS)\b", path.read_text())


def test_a_header_that_counts_endless_steps_is_refused_at_once() -> None:
    bad = with_field(a_plan().to_bytes(), "header", 0, "n_train_steps", 2**32 - 1)
    assert "in the phases" in "; ".join(findings(bad))
