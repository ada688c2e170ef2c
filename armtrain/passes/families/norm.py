"""Normalisation."""

from __future__ import annotations

from typing import Any

from armtrain.ir.graph import BatchNorm2dAttrs, LayerNormAttrs, Node, NodeKind
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Layout, Phase, Role, Step, TensorId
from armtrain.passes.autodiff import Backward, BackwardRule
from armtrain.passes.forward import Forward, ForwardRule, row_dims

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


Form = tuple[tuple[int, ...], Layout]
"""Arena dimensions in which a step sees a value, and its layout."""


def _kept(fwd: Forward, node: Node, words: tuple[str, ...], dims: tuple[int, ...]) -> Any:
    """Return the tensors of statistics that the gradient reads, by operand."""
    if not fwd.needs[node.id]:
        return {}
    saved = tuple(
        fwd.emitter.tensor(f"{node.name}.{word}", Role.SAVED, dims, batched=True) for word in words
    )
    fwd.saved[node.id] = saved
    return dict(zip(words, saved, strict=True))


def _seen(fwd: Forward, node: Node, form: Form) -> dict[str, TensorId | None]:
    """Return the operands that forward and backward read, the value in a form."""
    source = node.inputs[0]
    x = fwd.emitter.view(fwd.values[source], fwd.name(source), *form, fwd.phase)
    return {"x": x, "gamma": fwd.param(node, "weight")}


def _sample_gradient(
    back: Backward, node: Node, op: OpCode, values: Any, form: Form, words: tuple[str, ...]
) -> None:
    """Parameters and input in one step."""
    fwd, dx = back.fwd, None
    if fwd.source_needs(node):
        dx = back.derivative(back.contribution_name(node), *form)
    slots = _seen(fwd, node, form) | {
        "dgamma": back.param_gradient(node, "weight"),
        "dbeta": back.param_gradient(node, "bias"),
        "dy": fwd.emitter.view(back.passed(node), f"{fwd.name(node.id)}.grad", *form),
        "dx": dx,
    }
    slots |= dict(zip(words, fwd.saved[node.id], strict=True))
    trains = slots["dgamma"] is not None or slots["dbeta"] is not None
    place = back.place(node, "CG" if trains else "CD")
    back.group.gradient.append(fwd.emitter.step(op, place, values, **slots))
    back.finish_params(node)
    back.contribute(node, dx)


def _row_form(fwd: Forward, node: Node, attrs: LayerNormAttrs) -> Form:
    """Return the form in which what is normalised is the last dimension."""
    dims, layout = fwd.layout(node.id)
    return row_dims(dims, attrs), layout


def _row_words(attrs: LayerNormAttrs) -> tuple[str, ...]:
    """Return the statistics that the gradient needs."""
    return ("row_mean", "row_invstd") if attrs.centred else ("row_invstd",)


def _layernorm(fwd: Forward, node: Node, attrs: LayerNormAttrs) -> list[Step]:
    """Statistics of every row."""
    form = _row_form(fwd, node, attrs)
    slots = _seen(fwd, node, form) | {"beta": fwd.param(node, "bias")}
    slots |= {"y": fwd.result(node, form)} | _kept(fwd, node, _row_words(attrs), form[0][:-1])
    values = {"eps": attrs.eps, "centred": attrs.centred}
    return [fwd.emitter.step(OpCode.LAYERNORM_FWD, fwd.place(node), values, **slots)]


def _layernorm_gradient(back: Backward, node: Node, attrs: LayerNormAttrs) -> None:
    """Differentiate through the statistics of every row."""
    form = _row_form(back.fwd, node, attrs)
    _sample_gradient(back, node, OpCode.LAYERNORM_GRAD, None, form, _row_words(attrs))


FORWARD: dict[NodeKind, ForwardRule] = {
    NodeKind.BATCHNORM2D: _batchnorm,
    NodeKind.LAYERNORM: _layernorm,
}

BACKWARD: dict[NodeKind, BackwardRule] = {
    NodeKind.BATCHNORM2D: _batchnorm_gradient,
    NodeKind.LAYERNORM: _layernorm_gradient,
}
