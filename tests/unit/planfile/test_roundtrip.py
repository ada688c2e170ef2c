"""Writing and reading: the same plan back, the same bytes everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from armtrain.errors import PlanError, StorageError
from armtrain.ir.program import Layout, Program
from armtrain.planfile import format as fmt
from armtrain.planfile.assemble import assemble
from armtrain.planfile.plan import Plan
from armtrain.planfile.write import encode
from tests.plan_edit import get_field
from tests.plans import linear_regression, mlp_classifier
from tests.strategies import programs


@given(programs())
def test_a_read_plan_equals_the_written_one(program: Program) -> None:
    plan = Plan.of(assemble(program, budget_bytes=10**9))
    content = plan.to_bytes()
    assert Plan.from_bytes(content) == plan
    assert Plan.from_bytes(content).to_bytes() == content


def test_layouts_of_more_dimensions_than_the_arena_array() -> None:
    program = mlp_classifier((8, 16, 3))
    tensors = list(program.tensors)
    folded = Layout((16, 8), (16, 2, 2, 2), (2, 3, 1, 0))
    tensors[0] = replace(tensors[0], layout=folded)
    program = replace(program, tensors=tuple(tensors))
    assert Plan.from_bytes(encode(assemble(program))).program == program


def test_sections_follow_each_other_at_multiples_of_eight() -> None:
    content = encode(assemble(mlp_classifier()))
    end = fmt.HEADER.size
    for name, size in fmt.SECTIONS:
        start = get_field(content, "header", 0, f"{name}_offset")
        assert start == -(-end // 8) * 8
        end = start + size * get_field(content, "header", 0, f"{name}_count")
    assert end == len(content) == get_field(content, "header", 0, "file_bytes")


_SCRIPT = """
import sys
from armtrain.planfile.assemble import assemble
from armtrain.planfile.write import encode
from tests.plans import mlp_classifier
sys.stdout.buffer.write(encode(assemble(mlp_classifier((20, 30, 5), 7, 3, "adam"))))
"""


def test_bytes_do_not_depend_on_the_hash_seed(root: Path) -> None:
    outputs = set()
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": f"UTC+{seed[0]}"}
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT], cwd=root, env=environment, check=True,
            capture_output=True,
        )  # fmt: skip
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_two_layouts_of_one_program_share_its_hash() -> None:
    data = assemble(linear_regression())
    moved = replace(data, offsets=tuple(o + 64 for o in data.offsets))
    first, second = encode(data), encode(moved)
    start = 64  # program_hash
    assert first[start : start + 32] == second[start : start + 32]
    assert first != second


def test_saving_replaces_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "small.plan"
    path.write_bytes(b"older")
    plan = Plan.of(assemble(linear_regression()))
    plan.save(path)
    assert Plan.load(path) == plan
    assert [p.name for p in tmp_path.iterdir()] == ["small.plan"]


def test_saving_into_a_missing_folder_is_refused(tmp_path: Path) -> None:
    plan = Plan.of(assemble(linear_regression()))
    with pytest.raises(StorageError, match="does not exist; create it"):
        plan.save(tmp_path / "none" / "small.plan")
    with pytest.raises(StorageError, match="cannot read the plan"):
        Plan.load(tmp_path / "small.plan")


def test_meta_is_canonical_json() -> None:
    content = encode(assemble(mlp_classifier()))
    start = get_field(content, "header", 0, "meta_offset")
    text = content[start:].decode()
    meta = json.loads(text)
    assert json.dumps(meta, sort_keys=True, separators=(",", ":"), ensure_ascii=False) == text
    assert meta["optimizer"] == "sgd:lr=0.05,momentum=0.9"
    assert meta["derived"]["weights_bytes"] == 4 * (8 * 16 + 16 + 16 * 3 + 3)


def test_programs_that_the_format_cannot_hold_are_refused() -> None:
    program = linear_regression()
    tensors = list(program.tensors)
    tensors[0] = replace(tensors[0], dims=(1, 1, 1, 1, 1, 1, 3))
    with pytest.raises(PlanError, match="1 to 6 dimensions"):
        encode(assemble(replace(program, tensors=tuple(tensors))))
    steps = list(program.steps)
    steps[0] = replace(steps[0], attrs=(1,))
    with pytest.raises(PlanError, match="catalogue"):
        encode(assemble(replace(program, steps=tuple(steps))))
