"""The workspace formulas of Python and C agree, and stay small."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from armtrain import optim, zoo
from armtrain.ir.ops import UPDATE_OF, OpCode, spec_of
from armtrain.ir.program import Role
from armtrain.ir.workspace import Operands, workspace_bytes
from armtrain.passes.pipeline import compile_program
from armtrain.runtime.engine import engine_module

DRAWS = 300


def size(draw: Random, most: int) -> int:
    """Return a size in [1, most], small ones and powers of two as likely as all others."""
    return min(
        most, draw.choice([draw.randint(1, most), draw.randint(1, 8), 2 ** draw.randint(0, 10)])
    )


def linear(draw: Random) -> dict[str, tuple[int, ...]]:
    n, i, o = size(draw, 2000), size(draw, 2000), size(draw, 2000)
    return {
        "x": (n, i),
        "dx": (n, i),
        "w": (i, o),
        "dw": (i, o),
        "y": (n, o),
        "dy": (n, o),
        "b": (o,),
    }


def conv(draw: Random) -> dict[str, tuple[int, ...]]:
    groups, c, o = draw.choice([1, 1, 2, 48]), size(draw, 600), size(draw, 600)
    if draw.random() < 0.3:
        c = o = 1
    n, h, w = size(draw, 64), size(draw, 64), size(draw, 64)
    weight = (groups, draw.randint(1, 7), draw.randint(1, 7), c, o)
    x, y = (n, h, w, c * groups), (n, size(draw, 64), size(draw, 64), o * groups)
    return {"x": x, "dx": x, "w": weight, "dw": weight, "y": y, "dy": y, "b": (o * groups,)}


def conv_transpose(draw: Random) -> dict[str, tuple[int, ...]]:
    dims = conv(draw)
    exchanged = {"x": "y", "dx": "dy", "y": "x", "dy": "dx"}
    bias = (dims["x"][3],)
    return {name: dims[exchanged.get(name, name)] for name in dims} | {"b": bias, "db": bias}


def image(draw: Random) -> dict[str, tuple[int, ...]]:
    c = size(draw, 2000)
    x = (size(draw, 64), size(draw, 64), size(draw, 64), c)
    vectors = ("gamma", "beta", "mean", "var", "save_mean", "save_invstd", "dgamma", "dbeta")
    return {"x": x, "dx": x, "y": x, "dy": x} | dict.fromkeys(vectors, (c,))


def indices(draw: Random) -> dict[str, tuple[int, ...]]:
    x = tuple(size(draw, 40) for _ in range(draw.randint(1, 5)))
    rows = (*x, size(draw, 64))
    return {"x": x, "dy": rows, "rows": rows}


def blocks(draw: Random) -> dict[str, tuple[int, ...]]:
    dims = linear(draw) if draw.random() < 0.5 else conv(draw)
    return {**dims, "g": (draw.randint(1, 9), dims["w"][-1])}


CASES: dict[OpCode, Callable[[Random], dict[str, tuple[int, ...]]]] = {
    OpCode.LINEAR_FWD: linear,
    OpCode.LINEAR_GRAD_W: linear,
    OpCode.LINEAR_GRAD_X: linear,
    OpCode.CONV2D_FWD: conv,
    OpCode.CONV2D_GRAD_W: conv,
    OpCode.CONV2D_GRAD_X: conv,
    OpCode.CONV_TRANSPOSE2D_FWD: conv_transpose,
    OpCode.CONV_TRANSPOSE2D_GRAD_W: conv_transpose,
    OpCode.CONV_TRANSPOSE2D_GRAD_X: conv_transpose,
    OpCode.BATCHNORM2D_FWD: image,
    OpCode.BATCHNORM2D_GRAD: image,
    OpCode.BATCHNORM2D_EVAL_GRAD: image,
    OpCode.EMBEDDING_GRAD_ROWS: indices,
    **dict.fromkeys(UPDATE_OF, blocks),
}


def operands(code: OpCode, draw: Random) -> Operands:
    """Return dims in catalogue order; optional operands are sometimes absent."""
    dims = CASES[code](draw)
    return tuple(
        None if slot.optional and draw.random() < 0.3 else dims.get(slot.name)
        for slot in spec_of(code).operands
    )


@pytest.mark.parametrize("code", [c for c in OpCode if (t := spec_of(c).tail) and t.kind == "f"])
def test_python_and_c_agree_on_weights(code: OpCode) -> None:
    fixed = len(spec_of(code).attrs)
    none = (None,) * len(spec_of(code).operands)
    for weights in (0, 1, 5, 14):
        attrs = (1,) * (fixed + weights)
        assert workspace_bytes(code, none, attrs, 2) == 4 * weights
        assert engine_module().op_workspace(code, none, attrs, 2) == 4 * weights


@pytest.mark.parametrize("code", CASES)
def test_python_and_c_agree(code: OpCode) -> None:
    draw = Random(code)
    attrs: tuple[int | float, ...] = tuple(1 for _ in spec_of(code).attrs)
    for _ in range(DRAWS):
        dims, threads = operands(code, draw), draw.randint(1, 64)
        expected = engine_module().op_workspace(code, dims, attrs, threads)
        assert workspace_bytes(code, dims, attrs, threads) == expected, (dims, threads)


@pytest.mark.parametrize(("name", "limit"), [("resnet18", 1 << 20), ("vgg16", 1 << 20)])
def test_one_thread_needs_little(name: str, limit: int) -> None:
    """Workspaces share memory in the arena: the largest one counts."""
    entry = zoo.entry(name)
    program = compile_program(
        entry.build(),
        input_shape=entry.input_shape,
        batch_size=32,
        loss=entry.loss(),
        optimizer=optim.SGD(lr=0.01),
        threads=1,
    )
    sizes = [t.nbytes for t in program.tensors if t.role is Role.WORKSPACE]
    assert 0 < max(sizes) < limit
