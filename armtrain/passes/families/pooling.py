"""Windows over images without parameters, and images of other sizes."""

from __future__ import annotations

from typing import Any

from armtrain.dtypes import DType
from armtrain.ir.graph import AvgPool2dAttrs, MaxPool2dAttrs, Node, NodeKind, Resample2dAttrs
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Role, Step, TensorId
from armtrain.ir.shapes import as_images, pool_over
from armtrain.passes.autodiff import Backward, BackwardRule
from armtrain.passes.families.pointwise import rectifier_gradient
from armtrain.passes.forward import Forward, ForwardRule

__all__ = ["BACKWARD", "FORWARD"]


def _pool_attrs(fwd: Forward, node: Node) -> dict[str, int | float]:
    """Return the attributes of pooling steps."""
    attrs = node.attrs
    assert isinstance(attrs, MaxPool2dAttrs | AvgPool2dAttrs)
    over = pool_over(as_images(fwd.graph.nodes[node.inputs[0]].shape), attrs)
    values: dict[str, int | float] = {
        "kernel_h": attrs.kernel[0],
        "kernel_w": attrs.kernel[1],
        "stride_h": attrs.stride[0],
        "stride_w": attrs.stride[1],
        "pad_h": attrs.padding[0],
        "pad_w": attrs.padding[1],
        "over_h": over[0],
        "over_w": over[1],
    }
    if isinstance(attrs, MaxPool2dAttrs):
        return {**values, "dil_h": attrs.dilation[0], "dil_w": attrs.dilation[1]}
    include = int(attrs.count_include_pad)
    return {**values, "count_include_pad": include, "divisor": attrs.divisor}


def _maxpool(fwd: Forward, node: Node, attrs: MaxPool2dAttrs) -> list[Step]:
    """Keep the places of the maxima if the gradient must find them."""
    x, y, idx = fwd.source(node), fwd.result(node), None
    if fwd.source_needs(node):
        dims, layout = fwd.layout(node.id)
        idx = fwd.emitter.tensor(
            f"{node.name}.idx", Role.SAVED, dims, layout=layout, dtype=DType.U8, batched=True
        )
        fwd.saved[node.id] = (idx,)
    op = OpCode.MAXPOOL2D_FWD
    return [fwd.emitter.step(op, fwd.place(node), _pool_attrs(fwd, node), x=x, y=y, idx=idx)]


def _avgpool(fwd: Forward, node: Node, attrs: AvgPool2dAttrs) -> list[Step]:
    """Window mean."""
    op, x = OpCode.AVGPOOL2D_FWD, fwd.source(node)
    return [fwd.emitter.step(op, fwd.place(node), _pool_attrs(fwd, node), x=x, y=fwd.result(node))]


def _resample(fwd: Forward, node: Node, attrs: Resample2dAttrs) -> list[Step]:
    """Make an image of another size."""
    op, x = OpCode[f"{attrs.method.upper()}_FWD"], fwd.source(node)
    return [fwd.emitter.step(op, fwd.place(node), dict(attrs.numbers), x=x, y=fwd.result(node))]


def _rectified(back: Backward, node: Node) -> TensorId | None:
    """Return the gradient of a maximum of rectified values as it passes the rectifier.

    A maximum is 0, or at a bound, exactly where the value is that it was taken from; so the
    rectifier's gradient, which is dy or 0, may be taken before dy goes to its place. Then the
    backward pass needs the rectifier's value no more, which is larger than the maxima.
    """
    fwd, source = back.fwd, back.fwd.graph.nodes[node.inputs[0]]
    op = rectifier_gradient(source)
    if op is None or back.sole_user(source) is not node:
        return None
    dx = back.derivative(f"{fwd.name(node.id)}.grad.rectified", *fwd.layout(node.id))
    y, dy, place = fwd.value(node.id), back.gradient(node), back.place(source, "CD")
    back.group.derivative.append(fwd.emitter.step(op, place, y=y, dy=dy, dx=dx))
    return dx


def _maxpool_gradient(back: Backward, node: Node, attrs: Any) -> None:
    """Scatter to the places of the maxima."""
    (idx,) = back.fwd.saved[node.id]
    values, dy = _pool_attrs(back.fwd, node), _rectified(back, node)
    back.one_step(node, OpCode.MAXPOOL2D_GRAD, attrs=values, dy=dy, idx=idx)


def _avgpool_gradient(back: Backward, node: Node, attrs: Any) -> None:
    """Spread over the window."""
    back.one_step(node, OpCode.AVGPOOL2D_GRAD, attrs=_pool_attrs(back.fwd, node))


def _resample_gradient(back: Backward, node: Node, attrs: Resample2dAttrs) -> None:
    """Give each pixel what it gave."""
    back.one_step(node, OpCode[f"{attrs.method.upper()}_GRAD"], attrs=dict(attrs.numbers))


FORWARD: dict[NodeKind, ForwardRule] = {
    NodeKind.MAXPOOL2D: _maxpool,
    NodeKind.AVGPOOL2D: _avgpool,
    NodeKind.RESAMPLE2D: _resample,
}

BACKWARD: dict[NodeKind, BackwardRule] = {
    NodeKind.MAXPOOL2D: _maxpool_gradient,
    NodeKind.AVGPOOL2D: _avgpool_gradient,
    NodeKind.RESAMPLE2D: _resample_gradient,
}
