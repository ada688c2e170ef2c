"""The independent checker accepts every plan that we make and names each way to break one."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from armtrain.ir.ops import OpCode
from armtrain.ir.program import Phase, Program, Role, Step, TensorId
from armtrain.planfile.assemble import assemble
from armtrain.planfile.check import findings
from armtrain.planfile.data import PlanData
from armtrain.planfile.write import encode
from tests.plan_edit import with_field
from tests.plans import mlp_classifier
from tests.strategies import programs


@given(programs())
def test_our_plans_are_safe(program: Program) -> None:
    assert findings(encode(assemble(program))) == []


def tensor_id(program: Program, name: str) -> TensorId:
    """Return the id of a tensor by name."""
    return next(t.id for t in program.tensors if t.name == name)


def moved(data: PlanData, name: str, onto: str) -> PlanData:
    """Return the plan with one storage placed onto another."""
    at = {data.program.tensors[t].name: i for i, s in enumerate(data.lifetimes.items)
          for t in s.tensors}  # fmt: skip
    offsets = list(data.offsets)
    offsets[at[name]] = offsets[at[onto]]
    return replace(data, offsets=tuple(offsets))


def test_overlapping_live_buffers_are_named() -> None:
    data = moved(assemble(mlp_classifier()), "0.y", "0.weight")
    text = "; ".join(findings(encode(data)))
    assert "'0.weight' (512 B" in text
    assert "'0.y' (384 B" in text
    assert "overlap while both are live" in text


def with_steps(program: Program, change: Callable[[list[Step]], None]) -> bytes:
    """Return the plan file of a program whose steps have been changed."""
    steps = list(program.steps)
    change(steps)
    return encode(assemble(replace(program, steps=tuple(steps))))


def test_a_read_before_the_write() -> None:
    def swap(steps: list[Step]) -> None:
        steps[1], steps[2] = steps[2], steps[1]

    text = "; ".join(findings(with_steps(mlp_classifier(), swap)))
    assert "reads '1.y'" in text


def test_an_in_place_result_that_destroys_a_value_still_needed() -> None:
    program = mlp_classifier()
    logits = tensor_id(program, "2.y")
    target, loss = tensor_id(program, "target"), tensor_id(program, "loss")
    step = next(s for s in program.steps if s.op is OpCode.CROSS_ENTROPY_GRAD)
    again = replace(step, operands=(logits, target, loss, *step.operands[3:]))

    def insert(steps: list[Step]) -> None:
        steps.insert(steps.index(step) + 1, again)

    text = "; ".join(findings(with_steps(program, insert)))
    assert "reads '2.y', which 'dlogits' has overwritten in place" in text


def test_operands_that_may_not_share_a_storage() -> None:
    program = mlp_classifier()
    tensors = list(program.tensors)
    y, x = tensor_id(program, "2.y"), tensor_id(program, "1.y")
    for name in ("2.y", "dlogits"):
        at = tensor_id(program, name)
        tensors[at] = replace(tensors[at], storage=tensors[x].storage)
    text = "; ".join(findings(encode(assemble(replace(program, tensors=tuple(tensors))))))
    assert f"'{tensors[x].name}' and '{tensors[y].name}' share a storage" in text


def test_a_persistent_buffer_is_never_shared() -> None:
    program = mlp_classifier()
    tensors = list(program.tensors)
    at = tensor_id(program, "0.weight.grad")
    tensors[at] = replace(tensors[at], storage=tensors[0].storage)
    text = "; ".join(findings(encode(assemble(replace(program, tensors=tuple(tensors))))))
    assert "persistent buffer '0.weight' is shared" in text


def test_a_frozen_parameter_is_never_written() -> None:
    program = mlp_classifier()
    tensors = list(program.tensors)
    tensors[0] = replace(tensors[0], role=Role.FROZEN)
    text = "; ".join(findings(encode(assemble(replace(program, tensors=tuple(tensors))))))
    assert "would overwrite the persistent buffer '0.weight'" in text


def test_training_steps_in_another_phase() -> None:
    program = mlp_classifier()
    update = next(s for s in program.steps if s.op is OpCode.SGD_STEP)

    def append(steps: list[Step]) -> None:
        steps.append(replace(update, phase=Phase.PREDICT))

    text = "; ".join(findings(with_steps(program, append)))
    assert "would overwrite the persistent buffer" in text


CONTENT = encode(assemble(mlp_classifier()))
INDEX = {t.name: t.id for t in mlp_classifier().tensors}


@pytest.mark.parametrize(
    ("section", "name", "field", "value", "cause"),
    [
        ("header", "", "arena_bytes", 64, "its buffers need"),
        ("header", "", "lower_bound_bytes", 64, "the lower bound is given as 64 B"),
        ("header", "", "proved_minimum_bytes", 1, "proved minimum 1 B is not between"),
        ("header", "", "budget_bytes", 64, "above its budget 64 B"),
        ("header", "", "threads", 5, "5 threads need 524288 B"),
        ("tensors", "0.weight", "offset", 13, "'0.weight' starts at 13, not a multiple of 64"),
        ("tensors", "0.weight", "bytes", 508, "'0.weight' has 508 B, its 8x16 elements need 512 B"),
        ("tensors", "0.weight", "first", 1, "'0.weight' is not live at every step"),
        ("tensors", "0.bias.grad", "last", 10, "uses '0.bias.grad', live only for steps"),
        ("tensors", "input", "batched", 0, ""),
        ("tensors", "0.y", "offset", 64 * 999, "share a storage but not its address"),
        ("tensors", "0.weight.grad", "dtype", 2, "not of type F32"),
    ],
)
def test_each_lie_is_named(section: str, name: str, field: str, value: int, cause: str) -> None:
    index = INDEX[name] if name else 0
    text = "; ".join(findings(with_field(CONTENT, section, index, field, value)))
    assert cause in text


def test_shapes_that_do_not_go_together() -> None:
    program = mlp_classifier()
    tensors = list(program.tensors)
    at = tensor_id(program, "2.weight.grad")
    tensors[at] = replace(tensors[at], dims=(16, 2), layout=tensors[0].layout.plain((16, 2)))
    text = "; ".join(findings(encode(assemble(replace(program, tensors=tuple(tensors))))))
    assert "dw '2.weight.grad' has 128 B, needs 192 B" in text


def test_a_workspace_that_is_too_small() -> None:
    program = mlp_classifier()
    tensors = list(program.tensors)
    at = next(t.id for t in tensors if t.role is Role.WORKSPACE)
    small = replace(tensors[at], dims=(8,), layout=tensors[at].layout.plain((8,)))
    tensors[at] = small
    text = "; ".join(findings(encode(assemble(replace(program, tensors=tuple(tensors))))))
    assert f"its workspace ('{small.name}') has 8 B, needs" in text


def test_the_checker_shares_no_code_with_planner_writer_and_reader(root: Path) -> None:
    allowed = {
        "armtrain.dtypes", "armtrain.errors", "armtrain.ir.ops", "armtrain.ir.program",
        "armtrain.limits", "armtrain.ir.workspace", "armtrain.planfile.format", "armtrain.planfile",
    }  # fmt: skip
    for path in (root / "armtrain" / "planfile").glob("check*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("armtrain"):
                own = str(node.module).startswith("armtrain.planfile.check")
                assert own or node.module in allowed, f"{path.name} imports {node.module}"
