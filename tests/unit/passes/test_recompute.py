"""What is made again in the backward pass, where, and that a plan that lies about it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.errors import ArgumentError, PlanError
from armtrain.ir.cost import Rates
from armtrain.ir.ops import Access, OpCode, spec_of
from armtrain.ir.program import Phase, Program, Role, Step
from armtrain.planfile.assemble import assemble
from armtrain.planfile.check import findings
from armtrain.planfile.plan import Plan
from armtrain.planfile.write import encode
from armtrain.runtime.engine import engine_module
from armtrain.zoo import entry
from tests.ops.cases import CASES, make_plan

AGAIN = CASES["batchnorm_again"]
MIB = 2**20


def zoo_plan(name: str, batch_size: int, momentum: float = 0.0, **more: object) -> at.Plan:
    """Return the plan of a model for one thread."""
    model = entry(name)
    return at.plan(
        model.build(),
        input_shape=model.input_shape,
        batch_size=batch_size,
        loss=model.loss(),
        optimizer=optim.SGD(lr=0.01, momentum=momentum),
        threads=1,
        **more,  # type: ignore[arg-type]
    )


def again_at(program: Program) -> list[int]:
    """Return the places of steps that make values again."""
    kinds = [s.kind for s in program.steps if s.phase == Phase.TRAIN]
    return [i for i, kind in enumerate(kinds) if kind == "F" and i > kinds.index("L")]


@pytest.mark.parametrize(
    ("name", "batch_size", "momentum", "mib"),
    [
        ("resnet18", 32, 0.0, 140.0),
        ("resnet18", 32, 0.9, 183.0),
        ("resnet18", 128, 0.0, 385.0),
        ("mobilenet_v2", 8, 0.0, 51.4),
        ("vgg16", 32, 0.0, 96.0),
        ("lenet", 32, 0.0, 0.85),
        ("gpt_tiny", 8, 0.0, 34.6),
    ],
)
def test_arenas(name: str, batch_size: int, momentum: float, mib: float) -> None:
    plan = zoo_plan(name, batch_size, momentum)
    assert plan.arena_bytes <= mib * MIB
    assert plan.arena_bytes <= 1.001 * plan.proved_minimum_bytes
    kept = zoo_plan(name, batch_size, momentum, free_recompute=False)
    assert kept.recompute == {"ops": 0, "extra_flops_fraction": 0.0}
    assert plan.arena_bytes <= kept.arena_bytes
    seconds = [float(p.predicted["step_seconds"] or 0.0) for p in (plan, kept)]
    assert seconds[1] <= seconds[0] <= (1.12 if name == "mobilenet_v2" else 1.05) * seconds[1]


def test_a_limit_of_time_keeps_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is slow beside products, copies are dear: fewer are made."""
    fast = zoo_plan("gpt_tiny", 8)
    monkeypatch.setattr("armtrain.compiler.rates_of", lambda board: Rates(6.0, 400.0, "assumed"))
    slow, kept = zoo_plan("gpt_tiny", 8), zoo_plan("gpt_tiny", 8, free_recompute=False)
    assert fast.arena_bytes < slow.arena_bytes < kept.arena_bytes
    assert slow.recompute["ops"] < fast.recompute["ops"]
    seconds = [float(p.predicted["step_seconds"] or 0.0) for p in (slow, kept)]
    assert seconds[0] <= 1.05 * seconds[1]


def test_copies_come_just_before_their_first_reader() -> None:
    program = make_plan(AGAIN).program
    places = again_at(program)
    assert places
    for index in places:
        step = program.steps[index]
        y = step.operands[spec_of(step.op).operand_index["y"]]
        assert y is not None
        assert program.tensors[y].name.endswith(".again")
        assert y in program.steps[index + 1].operands


def test_a_rectifier_before_a_maximum_leaves_nothing_behind() -> None:
    """Its gradient is taken of the maxima, so that no step after the loss reads its value."""
    for rectifier, op in ((nn.ReLU(), OpCode.RELU_GRAD), (nn.ReLU6(), OpCode.RELU6_GRAD)):
        net = nn.Sequential(
            *(nn.Conv2d(1, 3, 3), rectifier, nn.MaxPool2d(3, stride=1)),
            *(nn.Flatten(), nn.Linear(48, 2)),
        )
        options = {"loss": nn.CrossEntropyLoss(), "optimizer": optim.SGD(lr=0.1)}
        plan = at.plan(net, input_shape=(1, 8, 8), batch_size=2, **options)  # type: ignore[arg-type]
        ops = [s.op for s in plan.program.steps if s.phase == Phase.TRAIN]
        assert ops.index(op) == ops.index(OpCode.MAXPOOL2D_GRAD) - 1
        value = next(t for t in plan.program.tensors if t.name == "1.out")
        last = next(i.last for i in plan.lifetimes.items if value.id in i.tensors)
        assert last <= ops.index(OpCode.CROSS_ENTROPY_GRAD)


def moved(program: Program, index: int) -> Program:
    """Return the program with the step at `index` behind the one that follows."""
    steps = list(program.steps)
    steps[index : index + 2] = steps[index + 1], steps[index]
    return replace(program, steps=tuple(steps))


def refused(program: Program) -> list[str]:
    """Return what the checker finds in a program's plan; the engine must refuse it, too."""
    content = encode(assemble(program))
    with pytest.raises(PlanError):
        engine_module().Engine(content, seed=0)
    return findings(content)


def test_a_copy_that_is_read_before_it_is_made_is_refused() -> None:
    program = make_plan(AGAIN, threads=1).program
    for index in again_at(program):
        found = refused(moved(program, index))
        assert any(".again', which nothing has written before" in text for text in found), found


def without(program: Program, index: int) -> Program:
    """Return the program without a step."""
    return replace(program, steps=program.steps[:index] + program.steps[index + 1 :])


def test_a_copy_that_nobody_makes_is_refused() -> None:
    program = make_plan(AGAIN, threads=1).program
    for index in again_at(program):
        assert refused(without(program, index))


def test_a_source_that_has_died_is_refused() -> None:
    """A copy made of a value whose storage another result took meanwhile."""
    program = make_plan(AGAIN, threads=1).program
    index = again_at(program)[0]
    source = program.steps[index].operands[0]
    assert source is not None
    storage = program.tensors[source].storage
    writer = next(
        step.operands[spec_of(step.op).operand_index["y"]]
        for step in reversed(program.steps[:index])
        if step.op == OpCode.CONV2D_FWD and source not in step.operands
    )
    assert writer is not None
    tensors = tuple(replace(t, storage=storage) if t.id == writer else t for t in program.tensors)
    assert refused(replace(program, tensors=tensors))


def writers_of_statistics(program: Program) -> list[Step]:
    """Return the steps of training that write a running statistic."""
    found = []
    for step in program.steps:
        slots = zip(spec_of(step.op).operands, step.operands, strict=True)
        written = [t for slot, t in slots if t is not None and slot.access & Access.WRITE]
        if any(program.tensors[t].role == Role.BUFFER for t in written):
            found.append(step)
    return found


def test_bits_that_nobody_keeps_are_refused() -> None:
    program = make_plan(CASES["rectifier_by_bits"], threads=1).program
    places = [i for i, s in enumerate(program.steps) if s.op == OpCode.RECTIFIER_BITS]
    assert len(places) == 2
    for index in places:
        found = refused(without(program, index))
        assert any(".bits', which nothing has written" in text for text in found), found


def test_statistics_move_once_a_step() -> None:
    program = zoo_plan("resnet18", 2).program
    assert any(program.steps[i].op == OpCode.BATCHNORM2D_APPLY for i in again_at(program))
    layers = [step.layer for step in writers_of_statistics(program)]
    assert len(layers) == len(set(layers)) == 20


def test_the_argument_is_a_truth_value() -> None:
    with pytest.raises(ArgumentError, match="free_recompute needs True or False"):
        zoo_plan("lenet", 1, free_recompute="no")


def test_a_plan_keeps_its_rates() -> None:
    plan = zoo_plan("lenet", 2, board="raspberrypi-zero-2-w")
    assert plan.predicted["basis"] == "derived"
    assert Plan.from_bytes(plan.to_bytes()).predicted == plan.predicted
