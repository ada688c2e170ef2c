"""Arithmetic of values, and of values and parameters, with broadcasting; sums; matrix products."""

from __future__ import annotations

from math import prod
from typing import Any

from armtrain.ir.arithmetic import Combine, Function
from armtrain.ir.graph import (
    AffineAttrs,
    CombineAttrs,
    FunctionAttrs,
    MatmulAttrs,
    Node,
    NodeKind,
    PowerAttrs,
    ReduceAttrs,
)
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Layout, Step, TensorId
from armtrain.passes.autodiff import Backward, BackwardRule
from armtrain.passes.forward import Forward, ForwardRule

__all__ = ["BACKWARD", "FORWARD"]

_HALVES = 0.5


def _other(fwd: Forward, node: Node) -> TensorId:
    """Return the second operand: a value, or a parameter."""
    if len(node.inputs) > 1:
        return fwd.source(node, 1)
    param = fwd.param(node, "other")
    assert param is not None, f"'{node.name}' has one operand"
    return param


def _combine(fwd: Forward, node: Node, attrs: CombineAttrs) -> list[Step]:
    """Combine element by element."""
    slots = {"a": fwd.source(node), "other": _other(fwd, node), "y": fwd.result(node)}
    values = {"how": int(attrs.how)}
    return [fwd.emitter.step(OpCode.COMBINE, fwd.place(node), values, **slots)]


class _Chain:
    """Steps on tensors like a node's value, one after the other; each result is a new tensor."""

    def __init__(self, back: Backward, node: Node, kind: str) -> None:
        self.back, self.node, self.kind = back, node, kind
        self.steps: list[Step] = []

    def step(
        self, op: OpCode, values: dict[str, Any], out: TensorId, **slots: TensorId
    ) -> TensorId:
        """Append a step that writes `out` in the slot that is not given."""
        name = "total" if op == OpCode.REDUCE else "y"
        place, slots = self.back.place(self.node, self.kind), {**slots, name: out}
        self.steps.append(self.back.fwd.emitter.step(op, place, values, **slots))
        return out

    def like_value(self) -> TensorId:
        """Make a tensor like the node's value, which no later step reads."""
        dims, layout = self.back.fwd.layout(self.node.id)
        return self.back.derivative(f"{self.node.name}.part", dims, layout)

    def combine(self, how: Combine, a: TensorId, other: TensorId, out: TensorId) -> TensorId:
        """Append a combination."""
        return self.step(OpCode.COMBINE, {"how": int(how)}, out, a=a, other=other)

    def scaled(self, scale: float, x: TensorId, out: TensorId) -> TensorId:
        """Append a product with a number."""
        return self.step(OpCode.AFFINE, {"scale": scale, "shift": 0.0}, out, x=x)


# d a and d other of each combination: factors of dy, and the sign.
_FACTORS: dict[Combine, tuple[tuple[str, float], tuple[str, float]]] = {
    Combine.ADD: (("", 1.0), ("", 1.0)),
    Combine.SUB: (("", 1.0), ("", -1.0)),
    Combine.RSUB: (("", -1.0), ("", 1.0)),
    Combine.MUL: (("*other", 1.0), ("*a", 1.0)),
    Combine.DIV: (("/other", 1.0), ("*y /other", -1.0)),
    Combine.RDIV: (("*y /a", -1.0), ("/a", 1.0)),
}


def _product(chain: _Chain, factors: str, dy: TensorId, last: TensorId | None) -> TensorId:
    """Append dy times the factors; the last result is `last`, or a new tensor."""
    fwd, node = chain.back.fwd, chain.node
    words, value = factors.split(), dy
    for place, word in enumerate(words):
        if word[1:] == "other":
            factor = _other(fwd, node)
        else:
            factor = fwd.source(node) if word[1:] == "a" else fwd.value(node.id)
        how = Combine.MUL if word[0] == "*" else Combine.DIV
        final = last if place == len(words) - 1 else None
        value = chain.combine(
            how, value, factor, final if final is not None else chain.like_value()
        )
    return value


def _to_a(back: Backward, node: Node, attrs: CombineAttrs) -> None:
    """Contribute to the gradient of the first operand, which has the value's shape."""
    (factors, sign), dy = _FACTORS[attrs.how][0], back.passed(node)
    if not back.fwd.source_needs(node):
        return back.contribute(node, None)
    if factors or sign < 0:
        chain, dx = _Chain(back, node, "CD"), back.input_gradient(node)
        assert dx is not None
        value = back.gradient(node)
        if factors:
            value = _product(chain, factors, value, dx if sign > 0 else None)
        if sign < 0:
            chain.scaled(sign, value, dx)
        back.group.derivative += chain.steps
        dy = dx
    return back.contribute(node, dy)


def _to_other(back: Backward, node: Node, attrs: CombineAttrs) -> None:
    """Contribute to the gradient of the second operand, summed over what it stands for."""
    fwd, value = back.fwd, len(node.inputs) > 1
    factors, sign = _FACTORS[attrs.how][1]
    if value and not fwd.source_needs(node, 1):
        return back.contribute(node, None, 1)
    out = back.input_gradient(node, 1) if value else back.param_gradient(node, "other")
    if out is None:
        return None
    same = value and fwd.layout(node.inputs[1])[0] == fwd.layout(node.id)[0]
    chain = _Chain(back, node, "CD" if value else "CG")
    if same and not factors and sign > 0:
        return back.contribute(node, back.passed(node), 1)
    dy = _product(chain, factors, back.gradient(node), out if same and sign > 0 else None)
    if not same:
        chain.step(OpCode.REDUCE, {"scale": sign}, out, x=dy)
    elif sign < 0:
        chain.scaled(sign, dy, out)
    if value:
        back.group.derivative += chain.steps
        return back.contribute(node, out, 1)
    back.group.gradient += chain.steps
    return back.finish_params(node)


def _combine_gradient(back: Backward, node: Node, attrs: CombineAttrs) -> None:
    """Both operands."""
    _to_other(back, node, attrs)
    _to_a(back, node, attrs)


def _affine(fwd: Forward, node: Node, attrs: AffineAttrs) -> list[Step]:
    """Scale and shift."""
    values = {"scale": attrs.scale, "shift": attrs.shift}
    x, y = fwd.source(node), fwd.result(node)
    return [fwd.emitter.step(OpCode.AFFINE, fwd.place(node), values, x=x, y=y)]


def _affine_gradient(back: Backward, node: Node, attrs: AffineAttrs) -> None:
    """Scale."""
    if attrs.scale == 1.0:
        return back.contribute(node, back.passed(node))
    dx, chain = back.input_gradient(node), _Chain(back, node, "CD")
    assert dx is not None
    chain.scaled(attrs.scale, back.gradient(node), dx)
    back.group.derivative += chain.steps
    return back.contribute(node, dx)


def _power(fwd: Forward, node: Node, attrs: PowerAttrs) -> list[Step]:
    """Power."""
    x, y = fwd.source(node), fwd.result(node)
    return [fwd.emitter.step(OpCode.POWER, fwd.place(node), {"halves": attrs.halves}, x=x, y=y)]


def _power_gradient(back: Backward, node: Node, attrs: PowerAttrs) -> None:
    """Multiply by the next lower power times the exponent."""
    dx, chain, x = back.input_gradient(node), _Chain(back, node, "CD"), back.fwd.source(node)
    assert dx is not None
    lower = chain.step(OpCode.POWER, {"halves": attrs.halves - 2}, chain.like_value(), x=x)
    part = chain.combine(Combine.MUL, lower, back.gradient(node), chain.like_value())
    chain.scaled(attrs.halves * _HALVES, part, dx)
    back.group.derivative += chain.steps
    back.contribute(node, dx)


def _function(fwd: Forward, node: Node, attrs: FunctionAttrs) -> list[Step]:
    """Apply a function to each element."""
    x, y, values = fwd.source(node), fwd.result(node), {"which": int(attrs.which)}
    return [fwd.emitter.step(OpCode.FUNCTION, fwd.place(node), values, x=x, y=y)]


def _function_gradient(back: Backward, node: Node, attrs: FunctionAttrs) -> None:
    """Dy times the value, over the input, or times its sign."""
    dx, chain, dy = back.input_gradient(node), _Chain(back, node, "CD"), back.gradient(node)
    assert dx is not None
    if attrs.which == Function.EXP:
        chain.combine(Combine.MUL, dy, back.fwd.value(node.id), dx)
    elif attrs.which == Function.LOG:
        chain.combine(Combine.DIV, dy, back.fwd.source(node), dx)
    else:
        values, x = {"which": int(Function.SIGN)}, back.fwd.source(node)
        sign = chain.step(OpCode.FUNCTION, values, chain.like_value(), x=x)
        chain.combine(Combine.MUL, sign, dy, dx)
    back.group.derivative += chain.steps
    back.contribute(node, dx)


def _reduced(fwd: Forward, node: Node, attrs: ReduceAttrs) -> tuple[tuple[int, ...], Layout]:
    """Return the dimensions in the arena with 1 for what is summed up, and the layout."""
    source = node.inputs[0]
    gone = {fwd.axis(source, dim) for dim in attrs.dims}
    dims = tuple(1 if axis in gone else n for axis, n in enumerate(fwd.layout(source)[0]))
    return dims, fwd.layout(node.id)[1]


def _scale(fwd: Forward, node: Node, attrs: ReduceAttrs) -> dict[str, float]:
    """Return the attribute that makes a sum a mean."""
    shape = fwd.graph.nodes[node.inputs[0]].shape
    return {"scale": 1.0 / prod(shape[d] for d in attrs.dims) if attrs.mean else 1.0}


def _reduce(fwd: Forward, node: Node, attrs: ReduceAttrs) -> list[Step]:
    """Sum over some axes."""
    x, total = fwd.source(node), fwd.result(node, _reduced(fwd, node, attrs))
    values = _scale(fwd, node, attrs)
    return [fwd.emitter.step(OpCode.REDUCE, fwd.place(node), values, x=x, total=total)]


def _reduce_gradient(back: Backward, node: Node, attrs: ReduceAttrs) -> None:
    """Give every term the same."""
    fwd, chain, dx = back.fwd, _Chain(back, node, "CD"), back.input_gradient(node)
    assert dx is not None
    dims, layout = _reduced(fwd, node, attrs)
    small = fwd.emitter.view(back.passed(node), f"{fwd.name(node.id)}.grad", dims, layout)
    chain.step(OpCode.EXPAND, _scale(fwd, node, attrs), dx, small=small)
    back.group.derivative += chain.steps
    back.contribute(node, dx)


def _matmul(fwd: Forward, node: Node, attrs: MatmulAttrs) -> list[Step]:
    """Multiply."""
    x_turned, z_turned = attrs.transposed
    values = {"x_turned": x_turned, "z_turned": z_turned}
    slots = {"x": fwd.source(node), "z": fwd.source(node, 1), "y": fwd.result(node)}
    return [fwd.emitter.step(OpCode.MATMUL, fwd.place(node), values, **slots)]


def _matmul_gradient(back: Backward, node: Node, attrs: MatmulAttrs) -> None:
    """Dx = dy zT, dz = xT dy, each transposed where the operand lies transposed."""
    fwd, dy = back.fwd, back.gradient(node)
    x, z, (x_turned, z_turned) = fwd.source(node), fwd.source(node, 1), attrs.transposed
    products = (
        (z, dy, z_turned, True) if x_turned else (dy, z, False, not z_turned),
        (dy, x, True, x_turned) if z_turned else (x, dy, not x_turned, False),
    )
    for position, (left, right, left_turned, right_turned) in enumerate(products):
        out = back.input_gradient(node, position)
        if out is not None:
            values = {"x_turned": left_turned, "z_turned": right_turned}
            place = back.place(node, "CD")
            step = fwd.emitter.step(OpCode.MATMUL, place, values, x=left, z=right, y=out)
            back.group.derivative.append(step)
        back.contribute(node, out, position)


FORWARD: dict[NodeKind, ForwardRule] = {
    NodeKind.COMBINE: _combine,
    NodeKind.AFFINE: _affine,
    NodeKind.POWER: _power,
    NodeKind.FUNCTION: _function,
    NodeKind.REDUCE: _reduce,
    NodeKind.MATMUL: _matmul,
}

BACKWARD: dict[NodeKind, BackwardRule] = {
    NodeKind.COMBINE: _combine_gradient,
    NodeKind.AFFINE: _affine_gradient,
    NodeKind.POWER: _power_gradient,
    NodeKind.FUNCTION: _function_gradient,
    NodeKind.REDUCE: _reduce_gradient,
    NodeKind.MATMUL: _matmul_gradient,
}
