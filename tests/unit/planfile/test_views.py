"""What people and tools see of a plan: figures, table, dump, picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given

from armtrain.errors import PlanError
from armtrain.ir.program import Phase, Program, Role
from armtrain.memory import Problem
from armtrain.memory.bounds import lower_bound
from armtrain.planfile.assemble import assemble
from armtrain.planfile.dump import packing_csv, text_dump
from armtrain.planfile.plan import Plan
from armtrain.planfile.render import html_page, svg_picture
from tests.plans import element_count, linear_regression, mlp_classifier
from tests.strategies import programs

KEYS = {
    "arena_bytes", "lower_bound_bytes", "proved_minimum_bytes", "weights_bytes",
    "optimizer_bytes", "gradients_peak_bytes", "activations_peak_bytes", "workspace_bytes",
    "input_bytes", "padding_bytes", "budget_bytes", "unbudgeted_bytes", "floor_bytes", "swap",
    "recompute", "predicted",
}  # fmt: skip


def plan_of(program: Program, budget_bytes: int | None = None) -> Plan:
    """Return the plan of a program."""
    return Plan.of(assemble(program, budget_bytes=budget_bytes))


def test_figures_of_a_classifier() -> None:
    plan = plan_of(mlp_classifier((784, 128, 64, 10), 32, threads=1))
    assert plan.weights_bytes == plan.optimizer_bytes == 437_544
    assert plan.input_bytes == 32 * 784 * 4 + 32 * 4
    assert plan.gradients_peak_bytes == 4 * (784 * 128 + 128)
    assert plan.stacks_bytes == 0
    assert (plan.batch_size, plan.threads) == (32, 1)


def test_json_has_the_contracted_keys() -> None:
    plan = plan_of(mlp_classifier(), budget_bytes=10**8)
    figures = json.loads(json.dumps(plan.to_json_dict()))
    assert set(figures) >= KEYS
    assert figures["budget_bytes"] == 10**8
    assert figures["swap"] == {"file_bytes": 0, "in_bytes_per_step": 0, "out_bytes_per_step": 0}
    assert figures["recompute"] == {"ops": 0, "extra_flops_fraction": 0.0}
    assert figures["predicted"] == {"step_seconds": None, "board": "generic", "basis": None}
    assert plan_of(mlp_classifier()).to_json_dict()["budget_bytes"] is None


def test_inspection_lists_tensors_and_steps() -> None:
    program = mlp_classifier()
    figures = json.loads(json.dumps(plan_of(program).to_json_dict(inspect=True)))
    assert len(figures["tensors"]) == len(program.tensors)
    weight = figures["tensors"][0]
    assert weight["name"] == "0.weight"
    assert weight["shape"] == [16, 8]
    assert (weight["role"], weight["dtype"], weight["bytes"]) == ("weight", "f32", 512)
    assert (weight["first"], weight["last"]) == (0, len(program.steps))
    assert figures["steps"][0]["op"] == "linear_fwd"
    assert figures["steps"][0]["operands"]["w"] == "0.weight"


@given(programs())
def test_the_parts_add_up_to_the_arena(program: Program) -> None:
    plan = plan_of(program)
    assert 0 <= plan.padding_bytes <= 64 * len(program.tensors) + plan.arena_bytes // 4
    weights = sum(t.nbytes for t in program.tensors if t.role is Role.WEIGHT)
    assert plan.weights_bytes == weights == 4 * element_count(program)
    assert [len(plan.phase_steps(p)) for p in Phase] == [
        sum(s.phase is p for s in program.steps) for p in Phase
    ]


def test_the_table_is_readable() -> None:
    plan = plan_of(mlp_classifier((784, 128, 64, 10), 32), budget_bytes=2**21)
    text = str(plan)
    for word in ("batch 32", "lower bound", "budget", "437,544 B", "largest at the fullest step"):
        assert word in text
    assert f"{plan.arena_bytes:,d} B" in text


def test_the_dump_is_complete_and_stable() -> None:
    program = mlp_classifier()
    text = text_dump(assemble(program))
    assert text == text_dump(assemble(program))
    assert all(t.name in text for t in program.tensors)
    assert "linear_fwd(x=input, w=0.weight, b=0.bias, y=0.y" in text


def test_the_packing_table() -> None:
    data = assemble(mlp_classifier())
    problem = Problem.from_csv(packing_csv(data))
    assert lower_bound(problem.buffers) == data.lower_bound_bytes
    assert packing_csv(data, solved=True).startswith("id,lower,upper,size,offset\n")


def test_the_picture_shows_every_storage() -> None:
    program = mlp_classifier()
    tensors = list(program.tensors)
    tensors[0] = replace(tensors[0], name="<0.weight & more>")
    data = assemble(replace(program, tensors=tuple(tensors)))
    root = ET.fromstring(svg_picture(data))
    boxes = [e for e in root.iter("{http://www.w3.org/2000/svg}rect") if e.get("class") == "b"]
    assert len(boxes) == len(data.lifetimes.items)
    titles = [box[0].text or "" for box in boxes]
    assert any(t.startswith("<0.weight & more>\nweights, 512 B") for t in titles)
    texts = " ".join(e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text"))
    for word in ("train", "evaluate", "predict", "step", "optimizer state", "live bytes"):
        assert word in texts


def test_the_page_needs_nothing_else() -> None:
    page = html_page(assemble(linear_regression()))
    assert page.startswith("<!doctype html>")
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_plan_of_another_model_is_refused() -> None:
    plan = plan_of(mlp_classifier((8, 16, 3), 6))
    plan.verify_program(mlp_classifier((8, 16, 3), 6, threads=1))
    with pytest.raises(PlanError, match=r"batch 6.*batch 7.*input 6x8.*input 7x8"):
        plan.verify_program(mlp_classifier((8, 16, 3), 7))
    with pytest.raises(PlanError, match="model hash"):
        plan.verify_program(mlp_classifier((8, 17, 3), 6))
