"""Scratch bytes of every operation: the Python twin of the C `art_op_NAME_workspace` functions.

A function of shapes and planned threads alone: the maximum over all kernel levels of all
architectures, so that a plan made on one machine runs on every other. A test compares both twins.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from armtrain.dtypes import align_up
from armtrain.ir.ops import OPS, UPDATE_OF, OpCode, spec_of

__all__ = ["workspace_bytes"]

Dims = tuple[int, ...]
Operands = tuple[Dims | None, ...]

_GEMM_KC = 256  # most terms of a block, ART_GEMM_KC
_GEMM_NR_MAX = 48  # most columns of a tile over all levels, ART_GEMM_NR_MAX
_COLUMN_GROUP = 64  # channels of one tile of a reduction over rows, GROUP in columns.c
_COLUMN_TILES = 16  # tiles wanted at least, TILES
_COLUMN_ROWS = 64  # rows of one block, ART_VEC_MAX_ROWS


def _product(terms: int, columns: int, threads: int) -> int:
    """Return the scratch of a matrix product: per thread a row of zeros and a packed panel."""
    width = align_up(columns, 16) if columns < _GEMM_NR_MAX else _GEMM_NR_MAX
    floats = _GEMM_KC + align_up(min(terms, _GEMM_KC) * width, 16)
    return 4 * floats * threads


def _operand(code: OpCode, operands: Operands, name: str) -> Dims | None:
    """Return the dims of the operand in slot `name`."""
    return operands[spec_of(code).operand_index[name]]


def _weight(code: OpCode, operands: Operands) -> Dims:
    """Return the dims of the required operand 'w'."""
    dims = _operand(code, operands, "w")
    assert dims is not None
    return dims


def _columns(weight: Dims, axis: int) -> int:
    """Return the columns of one product: a group's channels, all channels of a depthwise one."""
    groups, _, _, in_channels, out_channels = weight
    return groups if in_channels == out_channels == 1 else weight[axis]


def _linear_fwd(code: OpCode, operands: Operands, threads: int) -> int:
    terms, columns = _weight(code, operands)
    return _product(terms, columns, threads)


def _linear_grad_x(code: OpCode, operands: Operands, threads: int) -> int:
    columns, terms = _weight(code, operands)
    return _product(terms, columns, threads)


def _conv_fwd(code: OpCode, operands: Operands, threads: int) -> int:
    weight = _weight(code, operands)
    return _product(prod(weight[1:4]), _columns(weight, 4), threads)


def _conv_grad_x(code: OpCode, operands: Operands, threads: int) -> int:
    weight = _weight(code, operands)
    return _product(prod(weight[1:3]) * weight[4], _columns(weight, 3), threads)


def _grad_w(code: OpCode, operands: Operands, threads: int) -> int:
    """Return the scratch of a weight gradient: its terms are the pixels of dy."""
    dy, dw = _operand(code, operands, "dy"), _operand(code, operands, "dw")
    assert dy is not None
    if dw is None:
        return 0
    columns = dw[-1] if code == OpCode.LINEAR_GRAD_W else _columns(dw, 4)
    return _product(prod(dy[:-1]), columns, threads)


def _blocks(code: OpCode, operands: Operands, threads: int) -> int:
    """Return the scratch of a gradient that is made block by block: that of the whole."""
    dy, w = _operand(code, operands, "dy"), _weight(code, operands)
    assert dy is not None
    return _product(prod(dy[:-1]), w[-1] if len(w) == 2 else _columns(w, 4), threads)


def _conv_transpose_grad_w(code: OpCode, operands: Operands, threads: int) -> int:
    """Return the scratch of a weight gradient: its terms are the pixels of x."""
    x, dw = _operand(code, operands, "x"), _operand(code, operands, "dw")
    assert x is not None
    return 0 if dw is None else _product(prod(x[:-1]), _columns(dw, 4), threads)


def _column_partials(image: Dims | None) -> int:
    """Return the bytes of two float64 partial results per channel and part of the rows."""
    assert image is not None
    rows, columns = prod(image[:-1]), image[-1]
    groups = -(-columns // _COLUMN_GROUP)
    parts = min(max(_COLUMN_TILES // groups, 1), -(-rows // _COLUMN_ROWS))
    return parts * columns * 2 * 8


def _batchnorm(code: OpCode, operands: Operands, threads: int) -> int:
    return _column_partials(_operand(code, operands, "x"))


def _batchnorm_eval_grad(code: OpCode, operands: Operands, threads: int) -> int:
    reduces = any(_operand(code, operands, name) is not None for name in ("dgamma", "dbeta"))
    return _column_partials(_operand(code, operands, "dy")) if reduces else 0


def _matmul(x: Dims, y: Dims, attrs: tuple[int | float, ...], threads: int) -> int:
    """Return the scratch of batched products, whose terms are x's columns, or rows if turned."""
    return _product(x[-2 if attrs[0] else -1], y[-1], threads)


def _positions(code: OpCode, operands: Operands, threads: int) -> int:
    """Return the scratch of an order of indices: a place of 4 bytes for each."""
    x = _operand(code, operands, "x")
    assert x is not None
    return 4 * prod(x)


_WEIGHED = frozenset(code for code, spec in OPS.items() if spec.tail and spec.tail.kind == "f")
"""Operations with weights among their attributes, which they keep as float32 in their scratch."""

_FORMULAS: dict[OpCode, Callable[[OpCode, Operands, int], int]] = {
    OpCode.LINEAR_FWD: _linear_fwd,
    OpCode.LINEAR_GRAD_W: _grad_w,
    OpCode.LINEAR_GRAD_X: _linear_grad_x,
    OpCode.CONV2D_FWD: _conv_fwd,
    OpCode.CONV2D_GRAD_W: _grad_w,
    OpCode.CONV2D_GRAD_X: _conv_grad_x,
    OpCode.CONV_TRANSPOSE2D_FWD: _conv_grad_x,
    OpCode.CONV_TRANSPOSE2D_GRAD_W: _conv_transpose_grad_w,
    OpCode.CONV_TRANSPOSE2D_GRAD_X: _conv_fwd,
    OpCode.BATCHNORM2D_FWD: _batchnorm,
    OpCode.BATCHNORM2D_GRAD: _batchnorm,
    OpCode.BATCHNORM2D_EVAL_GRAD: _batchnorm_eval_grad,
    OpCode.EMBEDDING_GRAD_ROWS: _positions,
    **dict.fromkeys(UPDATE_OF, _blocks),
}


def workspace_bytes(
    op: OpCode,
    operand_dims: Operands,
    attrs: tuple[int | float, ...],
    threads: int,
) -> int:
    """Return the scratch bytes that step `op` needs.

    Parameters
    ----------
    op : OpCode
    operand_dims : tuple of (tuple of int or None)
        Arena dimensions at the planned batch in catalogue order, None for absent operands.
    attrs : tuple of (int or float)
        Attributes in catalogue order.
    threads : int
        Planned threads.

    Returns
    -------
    int
        Bytes, 0 when the operation needs none.
    """
    if op in _WEIGHED:
        return 4 * (len(attrs) - len(spec_of(op).attrs))
    if op == OpCode.MATMUL:
        x, y = _operand(op, operand_dims, "x"), _operand(op, operand_dims, "y")
        assert x is not None
        assert y is not None
        return _matmul(x, y, attrs, threads)
    formula = _FORMULAS.get(op)
    return formula(op, operand_dims, threads) if formula else 0
