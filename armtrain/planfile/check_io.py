"""The checker's rules for where samples enter a phase, and where loss and results leave it.

The engine writes one input and one target before a phase's first step, reads loss and count of
correct samples right after the loss, and the output after the last step. It finds these tensors
by role, lifetime and operation, so that there must be exactly one of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from armtrain.dtypes import DType
from armtrain.ir.ops import OPS, OpCode
from armtrain.ir.program import Phase, Role
from armtrain.planfile.check_parse import RawPlan

__all__ = ["fed_tensors", "io_findings", "phase_steps"]

_NAMES = (
    "CROSS_ENTROPY",
    "MSE",
    "HUBER",
    "KL_DIV",
    "BCE_WITH_LOGITS",
    "WEIGHTED_CROSS_ENTROPY",
    "NLL",
    "SOFT_CROSS_ENTROPY",
    "PLACES_CROSS_ENTROPY",
    "COSINE_EMBEDDING",
)
_LOSSES = {
    Phase.TRAIN: tuple(OpCode[f"{name}_GRAD"] for name in _NAMES),
    Phase.EVALUATE: tuple(OpCode[f"{name}_EVAL"] for name in _NAMES),
    Phase.PREDICT: (),
}
_RESULTS = {"loss": DType.F64, "correct": DType.I64}
_RESULT_BYTES = 8


@dataclass(frozen=True)
class _Loss:
    """A loss step and its operands by slot."""

    step: int
    operands: dict[str, int]


def phase_steps(raw: RawPlan, phase: Phase) -> range:
    """Return the steps of a phase."""
    head = raw.header
    counts = (head["n_train_steps"], head["n_evaluate_steps"], head["n_predict_steps"])
    first = sum(counts[:phase])
    return range(first, first + counts[phase])


def _losses(raw: RawPlan, phase: Phase) -> list[_Loss]:
    """Return all loss steps of a phase."""
    found = []
    for index in phase_steps(raw, phase):
        step = raw.steps[index]
        if step["op"] in _LOSSES[phase]:
            slots = [slot.name for slot in OPS[OpCode(step["op"])].operands]
            ids = raw.operands[step["operands"] : step["operands"] + len(slots)]
            found.append(_Loss(index, dict(zip(slots, ids, strict=True))))
    return found


def _live(raw: RawPlan, role: Role, step: int) -> list[int]:
    """Return the tensors of a role that are live at a step."""
    tensors = enumerate(raw.tensors)
    return [i for i, t in tensors if t["role"] == role and t["first"] <= step < t["last"]]


def fed_tensors(raw: RawPlan, phase: Phase) -> list[int]:
    """Return the tensors that the engine writes before a phase: its input, then its target."""
    steps = phase_steps(raw, phase)
    inputs = _live(raw, Role.INPUT, steps.start) if steps else []
    targets = [loss.operands["target"] for loss in _losses(raw, phase)]
    return [*inputs, *(t for t in targets if raw.tensors[t]["role"] == Role.TARGET)]


def io_findings(raw: RawPlan) -> Iterator[str]:
    """Check the tensors through which data enter and leave each phase."""
    seen: dict[str, int] = {}
    for phase in Phase:
        steps = phase_steps(raw, phase)
        if not steps:
            continue
        ends = {"input": _live(raw, Role.INPUT, steps.start)}
        yield from _only_findings(raw, ends["input"], "input", steps.start)
        if phase is Phase.PREDICT:
            outputs = _live(raw, Role.OUTPUT, steps[-1])
            yield from _only_findings(raw, outputs, "output", steps[-1])
        else:
            losses = _losses(raw, phase)
            yield from _loss_findings(raw, phase, losses)
            ends["target"] = [loss.operands["target"] for loss in losses]
        for what, tensors in ends.items():
            for tensor in tensors[:1]:
                yield from _same_findings(raw, what, seen.setdefault(what, tensor), tensor)


def _only_findings(raw: RawPlan, tensors: list[int], what: str, step: int) -> Iterator[str]:
    """Check that there is one such tensor, and that it is a batch of floats."""
    if not tensors:
        yield f"no tensor is the {what} at step {step}"
    if len(tensors) > 1:
        names = " and ".join(f"'{raw.name(i)}'" for i in tensors[:2])
        yield f"two tensors {names} are the {what} at step {step}"
    for index in tensors:
        t = raw.tensors[index]
        if t["dtype"] != DType.F32 or not t["batched"]:
            yield f"the {what} '{raw.name(index)}' is not a float32 batch"


def _loss_findings(raw: RawPlan, phase: Phase, losses: list[_Loss]) -> Iterator[str]:
    """Check that a phase has one loss, with results and a target that the engine can use."""
    first = phase_steps(raw, phase).start
    if not losses:
        yield f"the {phase.name.lower()} phase has no loss"
    if len(losses) > 1:
        steps = f"{losses[0].step} and {losses[1].step}"
        yield f"the {phase.name.lower()} phase has two losses, at steps {steps}"
    for loss in losses:
        for slot, dtype in _RESULTS.items():
            if slot in loss.operands:
                yield from _result_findings(raw, loss.operands[slot], dtype)
        t, name = raw.tensors[loss.operands["target"]], raw.name(loss.operands["target"])
        if t["role"] != Role.TARGET or not t["batched"] or t["dtype"] not in (DType.I32, DType.F32):
            yield f"the loss's target '{name}' is not a batch of labels or float32"
        if t["first"] > first:
            yield (
                f"the target '{name}' is live from step {t['first']} only, the batch arrives "
                f"before step {first}"
            )


def _result_findings(raw: RawPlan, tensor: int, dtype: DType) -> Iterator[str]:
    """Check a number that the engine reads after the loss."""
    t = raw.tensors[tensor]
    if t["role"] != Role.METRIC or t["dtype"] != dtype or t["bytes"] != _RESULT_BYTES:
        yield (
            f"'{raw.name(tensor)}' has role {Role(t['role']).name}, type "
            f"{DType(t['dtype']).name} and {t['bytes']} B; a METRIC of type {dtype.name} and "
            f"{_RESULT_BYTES} B expected"
        )


def _same_findings(raw: RawPlan, what: str, one: int, other: int) -> Iterator[str]:
    """Check that two phases take the same samples."""
    a, b = raw.tensors[one], raw.tensors[other]
    if (a["bytes"], a["dtype"]) != (b["bytes"], b["dtype"]):
        yield (
            f"the {what}s '{raw.name(one)}' and '{raw.name(other)}' of two phases differ: "
            f"{a['bytes']} and {b['bytes']} B"
        )
