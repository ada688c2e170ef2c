"""Layers with weight and bias: linear and convolution."""

from __future__ import annotations

from typing import Any

from armtrain.ir.graph import Conv2dAttrs, ConvTranspose2dAttrs, Node, NodeKind
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Step
from armtrain.passes.autodiff import Backward, BackwardRule
from armtrain.passes.forward import Forward, ForwardRule

__all__ = ["BACKWARD", "FORWARD"]


_POINTWISE: dict[str, int | float] = {
    **dict.fromkeys(("stride_h", "stride_w", "dil_h", "dil_w", "groups"), 1),
    **dict.fromkeys(("pad_h", "pad_w", "over_h", "over_w"), 0),
}
"""The attributes of a 1x1 convolution, which a linear layer is."""


def _conv_attrs(attrs: Any) -> dict[str, int | float]:
    """Return the attributes of convolution steps; those of a linear layer take none."""
    if not isinstance(attrs, Conv2dAttrs | ConvTranspose2dAttrs):
        return _POINTWISE
    (stride_h, stride_w), (pad_h, pad_w) = attrs.stride, attrs.padding
    dil_h, dil_w = attrs.dilation
    over_h, over_w = attrs.over if isinstance(attrs, Conv2dAttrs) else (0, 0)
    return {
        "stride_h": stride_h,
        "stride_w": stride_w,
        "pad_h": pad_h,
        "pad_w": pad_w,
        "dil_h": dil_h,
        "dil_w": dil_w,
        "groups": attrs.groups,
        "over_h": over_h,
        "over_w": over_w,
    }


def _forward(op: OpCode) -> ForwardRule:
    """Return the rule of a layer with weight and bias."""

    def rule(fwd: Forward, node: Node, attrs: Any) -> list[Step]:
        values = _conv_attrs(attrs)
        return [
            fwd.emitter.step(
                op,
                fwd.place(node),
                values,
                x=fwd.source(node),
                w=fwd.param(node, "weight"),
                b=fwd.param(node, "bias"),
                y=fwd.result(node),
            )
        ]

    return rule


def _backward(grad_w: OpCode, grad_x: OpCode, *, turned: bool = False) -> BackwardRule:
    """Return the rule of a layer with weight and bias; x is the product's gradient if `turned`."""

    def rule(back: Backward, node: Node, attrs: Any) -> None:
        emitter, dy = back.fwd.emitter, back.gradient(node)
        values = _conv_attrs(attrs)
        x = back.fwd.source(node)
        product = (dy, x) if turned else (x, dy)
        later = back.leaves_to_update(node, *product, values)
        dw = None if later else back.param_gradient(node, "weight")
        db = back.param_gradient(node, "bias")
        if dw is not None or db is not None:
            place = back.place(node, "CG")
            back.group.gradient.append(
                emitter.step(grad_w, place, values, x=x, dy=dy, dw=dw, db=db)
            )
            back.finish_params(node)
        dx = back.input_gradient(node)
        if dx is not None:
            w, place = back.fwd.param(node, "weight"), back.place(node, "CD")
            back.group.derivative.append(emitter.step(grad_x, place, values, dy=dy, w=w, dx=dx))
        back.contribute(node, dx)

    return rule


FORWARD: dict[NodeKind, ForwardRule] = {
    NodeKind.LINEAR: _forward(OpCode.LINEAR_FWD),
    NodeKind.CONV2D: _forward(OpCode.CONV2D_FWD),
    NodeKind.CONV_TRANSPOSE2D: _forward(OpCode.CONV_TRANSPOSE2D_FWD),
}

BACKWARD: dict[NodeKind, BackwardRule] = {
    NodeKind.LINEAR: _backward(OpCode.LINEAR_GRAD_W, OpCode.LINEAR_GRAD_X),
    NodeKind.CONV2D: _backward(OpCode.CONV2D_GRAD_W, OpCode.CONV2D_GRAD_X),
    NodeKind.CONV_TRANSPOSE2D: _backward(
        OpCode.CONV_TRANSPOSE2D_GRAD_W, OpCode.CONV_TRANSPOSE2D_GRAD_X, turned=True
    ),
}
