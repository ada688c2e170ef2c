"""COPY, which the compiler emits for no network of the case table, in a plan written by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from armtrain.ir.ops import OpCode
from armtrain.ir.program import Phase, Program, Role, Step, StorageId, Tensor, TensorId
from armtrain.planfile.assemble import assemble
from armtrain.planfile.plan import Plan
from armtrain.runtime.engine import engine_module
from armtrain.runtime.reference import ReferenceExecutor
from tests.plans import mlp_classifier


def with_copied_output(program: Program) -> Program:
    """Return the program with its prediction copied once more."""
    tensors = list(program.tensors)
    output = next(t for t in tensors if t.role is Role.OUTPUT)
    tensors[output.id] = replace(output, role=Role.ACTIVATION)
    storage = StorageId(1 + max(t.storage for t in tensors))
    copied = TensorId(len(tensors))
    layout = output.layout
    tensors.append(
        Tensor(copied, "copied", Role.OUTPUT, output.dtype, output.dims, True, storage, layout)
    )
    step = Step(OpCode.COPY, Phase.PREDICT, (output.id, copied), (), "copy", "F")
    return replace(program, tensors=tuple(tensors), steps=(*program.steps, step))


@pytest.mark.parametrize("level", engine_module().kernel_levels())
@pytest.mark.parametrize("n", [1, 3, 6])
def test_a_copy_is_the_same_bits(level: str, n: int) -> None:
    x = np.random.default_rng(1).normal(size=(n, 8)).astype(np.float32)
    results = []
    for program in (mlp_classifier(), with_copied_output(mlp_classifier())):
        plan = Plan.of(assemble(program))
        out = np.zeros((n, 3), np.float32)
        engine = engine_module().Engine(plan.to_bytes(), seed=1, kernel_level=level)
        engine.initialize()
        engine.predict_step(x, n, out)
        results.append(out)
    assert results[0].any()
    assert results[0].tobytes() == results[1].tobytes()
    reference = ReferenceExecutor(plan, seed=1).predict_step(x)
    np.testing.assert_allclose(out, reference, rtol=1e-5, atol=1e-6)
