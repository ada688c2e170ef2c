"""What changes the shape or the order of a value and no number in it."""

from __future__ import annotations

from typing import Any

from armtrain.ir.graph import CatAttrs, Node, NodeKind, PermuteAttrs, SliceAttrs
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Role, Step
from armtrain.passes.autodiff import Backward, BackwardRule, Region
from armtrain.passes.forward import Forward, ForwardRule

__all__ = ["BACKWARD", "FORWARD"]


def _view(fwd: Forward, node: Node, attrs: Any) -> list[Step]:
    """Show the input."""
    return fwd.show(node)


def _view_gradient(back: Backward, node: Node, attrs: Any) -> None:
    """Pass the same bytes on."""
    back.contribute(node, back.passed(node))


def _to_nchw(fwd: Forward, node: Node, attrs: Any) -> list[Step]:
    """Bring an image into torch's order."""
    if fwd.passes_through(node):
        return fwd.show(node)
    op, x = OpCode.NHWC_TO_NCHW, fwd.images(node)
    return [fwd.emitter.step(op, fwd.place(node), x=x, y=fwd.result(node))]


def _to_nchw_gradient(back: Backward, node: Node, attrs: Any) -> None:
    """Bring the gradient back into arena order."""
    if back.fwd.passes_through(node):
        return _view_gradient(back, node, attrs)
    dims, layout = back.fwd.as_images(node.inputs[0])
    dx, dy = back.derivative(back.contribution_name(node), dims, layout), back.gradient(node)
    op, place = OpCode.NCHW_TO_NHWC, back.place(node, "CD")
    back.group.derivative.append(back.fwd.emitter.step(op, place, x=dy, y=dx))
    back.contribute(node, dx)


def _to_nhwc(fwd: Forward, node: Node, attrs: Any) -> list[Step]:
    """Bring a value in torch's order into that of images."""
    if fwd.passes_through(node):
        return fwd.show(node)
    op, x = OpCode.NCHW_TO_NHWC, fwd.source(node)
    y = fwd.result(node, fwd.as_images(node.id))
    return [fwd.emitter.step(op, fwd.place(node), x=x, y=y)]


def _to_nhwc_gradient(back: Backward, node: Node, attrs: Any) -> None:
    """Bring the gradient back into torch's order."""
    if back.fwd.passes_through(node):
        return _view_gradient(back, node, attrs)
    dx, dy = back.input_gradient(node), back.gradient(node)
    op, place = OpCode.NHWC_TO_NCHW, back.place(node, "CD")
    back.group.derivative.append(back.fwd.emitter.step(op, place, x=dy, y=dx))
    back.contribute(node, dx)


def _axes(fwd: Forward, node: Node) -> list[int]:
    """Return per axis of the arena, but the batch's, the input's axis that it was.

    Rows of a sample are an axis of their own and stay where they are.
    """
    assert isinstance(node.attrs, PermuteAttrs)
    dims, _ = fwd.layout(node.id)
    rows = len(dims) - len(node.shape)
    moved = [fwd.axis(node.inputs[0], dim) for dim in node.attrs.dims[1:]]
    return [*range(1, 1 + rows), *moved]


def _permute(fwd: Forward, node: Node, attrs: PermuteAttrs) -> list[Step]:
    """Copy in another order, unless the bytes lie in it."""
    if fwd.passes_through(node):
        return fwd.show(node)
    op, x, values = OpCode.PERMUTE, fwd.source(node), {"perm": _axes(fwd, node)}
    return [fwd.emitter.step(op, fwd.place(node), values, x=x, y=fwd.result(node))]


def _permute_gradient(back: Backward, node: Node, attrs: PermuteAttrs) -> None:
    """Copy back."""
    if back.fwd.passes_through(node):
        return _view_gradient(back, node, attrs)
    axes = _axes(back.fwd, node)
    values = {"perm": [1 + axes.index(axis) for axis in range(1, 1 + len(axes))]}
    dx, dy = back.input_gradient(node), back.gradient(node)
    op, place = OpCode.PERMUTE, back.place(node, "CD")
    back.group.derivative.append(back.fwd.emitter.step(op, place, values, x=dy, y=dx))
    back.contribute(node, dx)


def _region(fwd: Forward, node: Node, attrs: SliceAttrs) -> Region:
    """Return which part of its input a slice is."""
    return {"axis": fwd.axis(node.id, attrs.dim), "start": attrs.start, "step": attrs.step}


def _slice(fwd: Forward, node: Node, attrs: SliceAttrs) -> list[Step]:
    """Copy a part."""
    op, x, values = OpCode.SLICE, fwd.source(node), _region(fwd, node, attrs)
    return [fwd.emitter.step(op, fwd.place(node), values, x=x, y=fwd.result(node))]


def _slice_gradient(back: Backward, node: Node, attrs: SliceAttrs) -> None:
    """Contribute to a part; what is not used of the input gets zeros when all parts are there."""
    back.contribute(node, back.gradient(node), region=_region(back.fwd, node, attrs))


def _parts(fwd: Forward, node: Node, attrs: CatAttrs) -> list[Region]:
    """Return where each input lies in the value that joins them."""
    axis, start = fwd.axis(node.id, attrs.dim), 0
    regions: list[Region] = []
    for source in node.inputs:
        regions.append({"axis": axis, "start": start, "step": 1})
        start += fwd.graph.nodes[source].shape[attrs.dim]
    return regions


def _cat(fwd: Forward, node: Node, attrs: CatAttrs) -> list[Step]:
    """Place one input after the other, all but the first into what is there."""
    whole, steps, (dims, layout) = None, [], fwd.layout(node.id)
    last = len(node.inputs) - 1
    for position, region in enumerate(_parts(fwd, node, attrs)):
        if position == last:
            y = fwd.result(node)
        else:
            name, role, phase = fwd.name(node.id), Role.ACTIVATION, fwd.phase
            y = fwd.emitter.tensor(name, role, dims, phase=phase, layout=layout, batched=True)
        x, values = fwd.source(node, position), {**region, "add": 0}
        place = fwd.place(node)
        steps.append(fwd.emitter.step(OpCode.PLACE, place, values, x=x, whole=whole, y=y))
        whole = y
    return steps


def _cat_gradient(back: Backward, node: Node, attrs: CatAttrs) -> None:
    """Give every input its part."""
    dy = back.gradient(node)
    for position, region in enumerate(_parts(back.fwd, node, attrs)):
        dx = back.input_gradient(node, position)
        if dx is not None:
            step = back.fwd.emitter.step(OpCode.SLICE, back.place(node, "CD"), region, x=dy, y=dx)
            back.group.derivative.append(step)
        back.contribute(node, dx, position)


FORWARD: dict[NodeKind, ForwardRule] = {
    NodeKind.FLATTEN: _view,
    NodeKind.RESHAPE: _view,
    NodeKind.TO_NCHW: _to_nchw,
    NodeKind.TO_NHWC: _to_nhwc,
    NodeKind.PERMUTE: _permute,
    NodeKind.SLICE: _slice,
    NodeKind.CAT: _cat,
}

BACKWARD: dict[NodeKind, BackwardRule] = {
    NodeKind.FLATTEN: _view_gradient,
    NodeKind.RESHAPE: _view_gradient,
    NodeKind.TO_NCHW: _to_nchw_gradient,
    NodeKind.TO_NHWC: _to_nhwc_gradient,
    NodeKind.PERMUTE: _permute_gradient,
    NodeKind.SLICE: _slice_gradient,
    NodeKind.CAT: _cat_gradient,
}
