"""How long a step takes: the compute half of the cost model, as plain formulas.

A step's work is a number of float operations and a number of bytes that it moves; a board's rates
turn both into seconds. Nothing is measured here: shapes and rates decide, so that a prediction is
the same on every host.

* A product (linear, convolution, matrix product) does 2 operations per weight and pixel, and its
  operands pass the memory once: seconds = max(operations / product rate, bytes / memory rate).
  The gradient in an update by blocks is one, too; the update itself moves what it has in the cache.
* A depthwise convolution has no reuse that a product lives on: its operations run at
  `_NO_PRODUCT_SHARE` of the product rate.
* Every other step runs at that share, too. It does `_PER_ELEMENT` operations, or `_FUNCTION` where
  it computes e^x and the like, for each element of its largest operand, and moves its operands;
  batch norm reads its images twice, for the statistics and to use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from armtrain.ir.ops import UPDATE_OF, Access, OpCode, spec_of
from armtrain.ir.program import Step, Tensor

__all__ = [
    "Rates",
    "Work",
    "product_flops",
    "seconds_of",
    "step_bytes",
    "total_seconds",
    "work_of",
]

_GIGA = 1e9
_MEGA = 1e6
_NO_PRODUCT_SHARE = 0.25
_PER_ELEMENT = 1
_FUNCTION = 20
"""Operations for each element of e^x, log, tanh and what is made of them."""


@dataclass(frozen=True)
class Rates:
    """How fast a board computes.

    Attributes
    ----------
    product_gflop_s : float
        10^9 float operations per second of products on one core.
    pass_mb_s : float
        10^6 bytes per second that all cores together read and write.
    basis : str
        Where the rates come from: 'measured', 'derived' or 'assumed'.
    """

    product_gflop_s: float
    pass_mb_s: float
    basis: str


@dataclass(frozen=True)
class Work:
    """What a step does.

    Attributes
    ----------
    flops : int
        Float operations.
    nbytes : int
        Bytes read and written.
    product : float
        Part of the product rate that the operations reach: 1 for products.
    """

    flops: int
    nbytes: int
    product: float = _NO_PRODUCT_SHARE


_READ_TWICE = {
    (OpCode.BATCHNORM2D_FWD, "x"),
    (OpCode.BATCHNORM2D_GRAD, "x"),
    (OpCode.BATCHNORM2D_GRAD, "dy"),
}

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
    **dict.fromkeys(UPDATE_OF, ("w", "dy")),
}
"""Product -> its weight, and the side of which every pixel meets every weight once."""

_FUNCTIONS = (
    "TANH",
    "SIGMOID",
    "ELU",
    "SILU",
    "GELU",
    "MISH",
    "SOFTPLUS",
    "SOFTMAX",
    "LOG_SOFTMAX",
)


def _named(step: Step, tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return the present operands by their names in the catalogue."""
    slots = zip(spec_of(step.op).operands, step.operands, strict=True)
    return {slot.name: tensors[i] for slot, i in slots if i is not None}


def step_bytes(step: Step, tensors: Sequence[Tensor]) -> int:
    """Return the bytes that a step reads and writes; scratch does not count.

    Parameters
    ----------
    step : Step
    tensors : sequence of Tensor
        By id; batches have the planned size.
    """
    operands, total = _named(step, tensors), 0
    for slot in spec_of(step.op).operands:
        if slot.name in operands and slot.access != Access.SCRATCH:
            times = 2 if (step.op, slot.name) in _READ_TWICE else 1
            times += slot.access == Access.READ_WRITE
            total += times * operands[slot.name].nbytes
    return total


def product_flops(step: Step, tensors: Sequence[Tensor]) -> int:
    """Return the operations of a product, depthwise ones included; 0 of any other step.

    Parameters
    ----------
    step : Step
    tensors : sequence of Tensor
        By id; batches have the planned size.

    Examples
    --------
    A linear layer of 3 inputs and 2 outputs on 4 samples has 2 * 4 * 3 * 2 of them.
    """
    operands = _named(step, tensors)
    if step.op == OpCode.MATMUL:
        turned = step.attrs[spec_of(step.op).attr_index["x_turned"]]
        return 2 * prod(operands["y"].dims) * operands["x"].dims[-2 if turned else -1]
    weight, side = (operands.get(name) for name in _PRODUCTS.get(step.op, ("", "")))
    if weight is None or side is None:
        return 0
    return 2 * prod(weight.dims) * prod(side.dims[:-1])


def work_of(step: Step, tensors: Sequence[Tensor]) -> Work:
    """Return the work of a step at the planned batch.

    Parameters
    ----------
    step : Step
    tensors : sequence of Tensor
        By id.
    """
    operands, nbytes = _named(step, tensors), step_bytes(step, tensors)
    flops = product_flops(step, tensors)
    if flops:
        weight = operands.get(_PRODUCTS.get(step.op, ("", ""))[0])
        deep = weight is not None and weight.dims[3:] == (1, 1)
        return Work(flops, nbytes, _NO_PRODUCT_SHARE if deep else 1.0)
    each = _FUNCTION if step.op.name.startswith(_FUNCTIONS) else _PER_ELEMENT
    return Work(each * max((prod(t.dims) for t in operands.values()), default=0), nbytes)


def seconds_of(work: Work, rates: Rates, threads: int) -> float:
    """Return the predicted seconds of some work on `threads` cores."""
    compute = work.flops / (rates.product_gflop_s * _GIGA * work.product * threads)
    return max(compute, work.nbytes / (rates.pass_mb_s * _MEGA))


def total_seconds(
    steps: Iterable[Step], tensors: Sequence[Tensor], rates: Rates, threads: int
) -> float:
    """Return the predicted seconds of steps one after the other."""
    return sum(seconds_of(work_of(step, tensors), rates, threads) for step in steps)
