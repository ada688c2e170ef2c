"""Canonical text of a graph and of a program: what goldens compare and hashes cover."""

from __future__ import annotations

from dataclasses import fields

from armtrain.ir.graph import Graph, Node
from armtrain.ir.ops import spec_of
from armtrain.ir.program import Phase, Program, Step, Tensor

__all__ = ["graph_text", "program_text"]


def _value_text(value: object) -> str:
    """Return an attribute: pairs as 2x2, booleans as yes/no, floats by repr."""
    if isinstance(value, tuple):
        return "x".join(str(v) for v in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value)


def _shape_text(shape: tuple[int, ...]) -> str:
    """Return '[32,1,28,28]'."""
    return "[" + ",".join(str(n) for n in shape) + "]"


def _node_text(node: Node) -> str:
    """Return one line of a graph."""
    attrs = [f"{f.name}={_value_text(getattr(node.attrs, f.name))}" for f in fields(node.attrs)]
    params = [f"{slot}={name}" for slot, name in node.params]
    inputs = ",".join(f"%{i}" for i in node.inputs)
    words = [f"%{node.id} = {node.kind.value}({inputs})", *attrs, *params]
    return f"{' '.join(words)} -> {_shape_text(node.shape)} # {node.name}"


def graph_text(graph: Graph) -> str:
    """Return the canonical text of `graph`, one line per parameter and node.

    Two graphs have equal texts if and only if they compute the same on the same parameters:
    batch size, names, shapes, attributes and trainability are all in it, initialisers are not.
    """
    lines = ["armtrain graph 1", f"batch {graph.batch_size}"]
    for param in graph.params:
        word = "buffer" if param.buffer else "trained" if param.trained else "frozen"
        lines.append(f"{word} {param.name} {_shape_text(param.shape)}")
    lines += [_node_text(node) for node in graph.nodes]
    lines.append(f"output %{graph.output}")
    return "\n".join(lines) + "\n"


def _tensor_text(tensor: Tensor) -> str:
    """Return one line about a tensor."""
    layout = tensor.layout
    batched = " batched" if tensor.batched else ""
    return (
        f"  t{tensor.id} s{tensor.storage} {tensor.role.name.lower()} {tensor.dtype.name.lower()} "
        f"{_shape_text(tensor.dims)}{batched} user {_shape_text(layout.shape)} "
        f"view {_shape_text(layout.view)} perm {_shape_text(layout.perm)} '{tensor.name}'"
    )


def _step_text(index: int, step: Step, program: Program) -> str:
    """Return one line about a step."""
    spec = spec_of(step.op)
    operands = [
        f"{slot.name}='{program.tensors[i].name}'"
        for slot, i in zip(spec.operands, step.operands, strict=True)
        if i is not None
    ]
    slots = spec.slots(len(step.attrs))
    attrs = [f"{a.name}={v!r}" for a, v in zip(slots, step.attrs, strict=True)]
    return f"  {index} {step.kind} {step.op.name.lower()} {' '.join(operands + attrs)}"


def program_text(program: Program) -> str:
    """Return a readable dump of all tensors and steps of `program`."""
    lines = [
        f"program batch={program.batch_size} threads={program.threads} loss={program.loss} "
        f"optimizer={program.optimizer} clip_norm={program.clip_norm} "
        f"clip_value={program.clip_value} board={program.board}",
        "tensors",
        *(_tensor_text(t) for t in program.tensors),
    ]
    for phase in Phase:
        lines.append(f"steps {phase.name.lower()}")
        steps = enumerate(program.steps)
        lines += [_step_text(i, s, program) for i, s in steps if s.phase == phase]
    return "\n".join(lines) + "\n"
