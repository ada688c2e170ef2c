"""Normalisation."""

from __future__ import annotations

from armtrain.ir.graph import BatchNorm2dAttrs, Node, NodeKind
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Phase, Role, Step
from armtrain.passes.autodiff import Backward, BackwardRule
from armtrain.passes.forward import Forward, ForwardRule

__all__ = ["BACKWARD", "FORWARD"]


def _batchnorm(fwd: Forward, node: Node, attrs: BatchNorm2dAttrs) -> list[Step]:
    """Batch statistics in training steps, running ones otherwise."""
    slots = {
        "x": fwd.images(node),
        "gamma": fwd.param(node, "weight"),
        "beta": fwd.param(node, "bias"),
        "mean": fwd.param(node, "running_mean"),
        "var": fwd.param(node, "running_var"),
        "y": fwd.result(node, fwd.as_images(node.id)),
    }
    trains = fwd.phase == Phase.TRAIN and attrs.training
    if slots["mean"] is not None and not trains:
        op = OpCode.BATCHNORM2D_EVAL
        return [fwd.emitter.step(op, fwd.place(node), {"eps": attrs.eps}, **slots)]
    if not trains:
        slots["mean"] = slots["var"] = None
    dims = (node.shape[1],)
    saved = tuple(
        fwd.emitter.tensor(f"{node.name}.{word}", Role.SAVED, dims, phase=fwd.phase)
        for word in ("save_mean", "save_invstd")
    )
    fwd.saved[node.id] = saved
    slots |= {"save_mean": saved[0], "save_invstd": saved[1]}
    numbers = {"eps": attrs.eps, "momentum": attrs.momentum}
    return [fwd.emitter.step(OpCode.BATCHNORM2D_FWD, fwd.place(node), numbers, **slots)]


def _batchnorm_gradient(back: Backward, node: Node, attrs: BatchNorm2dAttrs) -> None:
    """Parameters and input in one step."""
    fwd, dx = back.fwd, None
    dims, layout = fwd.as_images(node.id)
    if fwd.source_needs(node):
        dx = back.derivative(back.contribution_name(node), dims, layout)
    slots = {
        "dgamma": back.param_gradient(node, "weight"),
        "dbeta": back.param_gradient(node, "bias"),
        "gamma": fwd.param(node, "weight"),
        "dy": fwd.emitter.view(back.passed(node), f"{fwd.name(node.id)}.grad", dims, layout),
        "dx": dx,
    }
    reads_x = attrs.training or slots["dgamma"] is not None
    slots["x"] = fwd.images(node) if reads_x else None
    trains = slots["dgamma"] is not None or slots["dbeta"] is not None
    place = back.place(node, "CG" if trains else "CD")
    if attrs.training:
        slots["save_mean"], slots["save_invstd"] = fwd.saved[node.id]
        step = fwd.emitter.step(OpCode.BATCHNORM2D_GRAD, place, None, **slots)
    else:
        slots["mean"] = fwd.param(node, "running_mean")
        slots["var"] = fwd.param(node, "running_var")
        step = fwd.emitter.step(OpCode.BATCHNORM2D_EVAL_GRAD, place, {"eps": attrs.eps}, **slots)
    back.group.gradient.append(step)
    back.finish_params(node)
    back.contribute(node, dx)


FORWARD: dict[NodeKind, ForwardRule] = {NodeKind.BATCHNORM2D: _batchnorm}

BACKWARD: dict[NodeKind, BackwardRule] = {NodeKind.BATCHNORM2D: _batchnorm_gradient}
