"""What a step has to do at least: floating operations of its products, bytes of its operands.

Both count once what is needed, whatever a kernel does: a measured time over them is a rate that can
be compared with what a machine reaches at best.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from armtrain.ir.ops import Access, OpCode, spec_of
from armtrain.ir.program import Step, Tensor

__all__ = ["step_bytes", "step_flops"]

_PRODUCTS: dict[OpCode, tuple[str, str]] = {
    OpCode.LINEAR_FWD: ("w", "y"),
    OpCode.LINEAR_GRAD_W: ("dw", "dy"),
    OpCode.LINEAR_GRAD_X: ("w", "dy"),
    OpCode.CONV2D_FWD: ("w", "y"),
    OpCode.CONV2D_GRAD_W: ("dw", "dy"),
    OpCode.CONV2D_GRAD_X: ("w", "dy"),
    OpCode.CONV_TRANSPOSE2D_FWD: ("w", "x"),
    OpCode.CONV_TRANSPOSE2D_GRAD_W: ("dw", "x"),
    OpCode.CONV_TRANSPOSE2D_GRAD_X: ("w", "dx"),
}
"""Operation -> its weight, and the operand of whose places each meets all of a group's weights."""


def step_flops(step: Step, tensors: Sequence[Tensor]) -> int:
    """Return the multiplications and additions of a matrix product or convolution, else 0.

    Parameters
    ----------
    step : Step
    tensors : sequence of Tensor
        Those of the program; batches have the planned size.

    Examples
    --------
    A linear layer of 3 inputs and 2 outputs on 4 samples has 2 * 4 * 3 * 2 of them.
    """
    dims = _dims(step, tensors)
    if step.op is OpCode.MATMUL:
        turned = step.attrs[spec_of(step.op).attr_index["x_turned"]]
        return 2 * prod(dims["y"]) * dims["x"][-2 if turned else -1]
    weight, places = _PRODUCTS.get(step.op, ("", ""))
    return 2 * prod(dims[weight]) * prod(dims[places][:-1]) if weight in dims else 0


def step_bytes(step: Step, tensors: Sequence[Tensor]) -> int:
    """Return the bytes of what a step reads and of what it writes; scratch does not count."""
    slots = zip(spec_of(step.op).operands, step.operands, strict=True)
    return sum(
        tensors[i].nbytes * (bool(s.access & Access.READ) + bool(s.access & Access.WRITE))
        for s, i in slots
        if i is not None
    )


def _dims(step: Step, tensors: Sequence[Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the dimensions of the operands that are there, by slot."""
    slots = zip(spec_of(step.op).operands, step.operands, strict=True)
    return {s.name: tensors[i].dims for s, i in slots if i is not None}
