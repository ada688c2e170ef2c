"""In how many ways the case table uses each operation that training has.

The gradients of all cases are checked, each at its planned batch and at smaller ones; here is
checked that every operation meets smaller batches, frozen parameters, shared ones and views.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from armtrain.ir.ops import Access, OpCode, spec_of
from armtrain.ir.program import Phase, Program, Role, Step, Tensor
from tests.ops.cases import CASES, Case
from tests.ops.test_gradient import program_of

_PARAMETERS = {Role.WEIGHT, Role.FROZEN}
_VIEWS = {OpCode.SLICE, OpCode.PERMUTE}
_UNCUT = {
    OpCode.COSINE_EMBEDDING_GRAD: "reads one number of a sample, which has no parts",
    OpCode.MASKED_SOFTMAX_FWD: "reads products alone, as attention makes them",
}
"""Operation -> why it need not read a part of another value, or another order of it."""
_NEVER_FROZEN = {
    OpCode.EMBEDDING_GRAD: "has no other result than the gradient of a table",
    OpCode.EMBEDDING_GRAD_ROWS: "has no other result, either",
    OpCode.REDUCE: "sums a gradient of what is trained",
}
"""Operation -> why no layer of its own has a frozen parameter."""
_NEVER_SHARED = {
    OpCode.EMBEDDING_GRAD_ROWS: "is for tables with one use; EMBEDDING_GRAD is for the others",
}
"""Operation -> why no layer of its own has a shared parameter."""
_OF_UPDATES = {OpCode.GRAD_SUMSQ, OpCode.CLIP_SCALE, OpCode.CLIP_VALUE}
"""Operations between gradients and updates, which nothing differentiates."""


def used(tensors: tuple[Tensor, ...], step: Step, access: Access) -> Iterator[Tensor]:
    """Yield the present operands of a step with any bit of `access`."""
    for slot, operand in zip(spec_of(step.op).operands, step.operands, strict=True):
        if operand is not None and slot.access & access:
            yield tensors[operand]


def training(program: Program) -> list[Step]:
    """Return the steps that make gradients."""
    return [
        s
        for s in program.steps
        if s.phase == Phase.TRAIN and s.kind != "AG" and s.op not in _OF_UPDATES
    ]


def parametric(case: Case, program: Program) -> set[OpCode]:
    """Return the operations that read a parameter or make its gradient."""
    return {
        step.op
        for step in training(program)
        if any(
            t.role in {*_PARAMETERS, Role.GRADIENT}
            for t in used(program.tensors, step, Access.READ | Access.WRITE)
        )
    }


def smaller(case: Case, program: Program) -> set[OpCode]:
    """Return the operations if a batch may be smaller than planned."""
    return {s.op for s in training(program) if case.smallest < case.batch_size}


def of_layers(program: Program, chosen: Callable[[Tensor], bool]) -> set[OpCode]:
    """Return the operations of the layers that read a chosen parameter."""
    steps = training(program)
    layers = {
        step.layer
        for step in steps
        if any(chosen(t) for t in used(program.tensors, step, Access.READ))
    }
    return {step.op for step in steps if step.layer in layers}


def frozen(case: Case, program: Program) -> set[OpCode]:
    """Return the operations of layers with a frozen parameter."""
    return of_layers(program, lambda tensor: tensor.role == Role.FROZEN)


def shared(case: Case, program: Program) -> set[OpCode]:
    """Return the operations of layers with a parameter that is trained and used more than once."""
    uses = Counter(
        tensor.id
        for step in training(program)
        if step.kind == "F"
        for tensor in used(program.tensors, step, Access.READ)
        if tensor.role == Role.WEIGHT
    )
    return of_layers(program, lambda tensor: uses[tensor.id] > 1)


def of_views(case: Case, program: Program) -> set[OpCode]:
    """Return the operations that read a slice or a permutation, and those of their layers."""
    steps = training(program)
    views = {
        tensor.id
        for step in steps
        if step.op in _VIEWS
        for tensor in used(program.tensors, step, Access.WRITE)
    }
    return of_layers(program, lambda tensor: tensor.id in views)


def reached(mode: Callable[[Case, Program], set[OpCode]]) -> set[OpCode]:
    """Return the operations that a mode finds in all cases."""
    return set().union(*(mode(case, program_of(name)) for name, case in CASES.items()))


def trained() -> set[OpCode]:
    """Return the operations that make values and gradients."""
    return reached(lambda case, program: {step.op for step in training(program)})


def test_every_operation_meets_a_smaller_batch() -> None:
    assert trained() - reached(smaller) == set()


def test_every_operation_with_parameters_meets_frozen_ones() -> None:
    assert reached(parametric) - reached(frozen) == _NEVER_FROZEN.keys()


def test_every_operation_with_parameters_meets_shared_ones() -> None:
    assert reached(parametric) - reached(shared) == _NEVER_SHARED.keys()


def test_every_operation_meets_a_view() -> None:
    assert trained() - reached(of_views) == _UNCUT.keys()
