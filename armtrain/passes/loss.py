"""Loss steps: value and gradient in TRAIN, value and correct count in EVALUATE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from armtrain.dtypes import DType
from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.ops import OpCode, spec_of
from armtrain.ir.program import Phase, Role, Step, TensorId
from armtrain.limits import MAX_INDICES, MAX_WEIGHTS, NO_LABEL
from armtrain.nn.loss_base import plain_loss
from armtrain.nn.losses import (
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from armtrain.passes.emit import Place
from armtrain.passes.forward import Forward
from armtrain.values import what_was_given

__all__ = ["check_loss", "emit_eval_loss", "emit_train_loss", "order_read"]

_Attrs = Mapping[str, int | float]


@dataclass(frozen=True)
class _Rule:
    """The operations of a loss, and their attributes.

    Attributes
    ----------
    train, evaluate : OpCode
    attrs : callable
        Attributes by catalogue name, from torch's arguments.
    labels : bool
        Targets are one integer a sample; else floats like the output.
    classes : bool
        Outputs are one number for each class, (N, classes).
    places : bool
        Outputs are one number for each class and place, (N, classes, ...), and targets are labels
        of places, (N, ...), as floats.
    weights : str
        The option that may hold one number for each feature of the output.
    """

    train: OpCode
    evaluate: OpCode
    attrs: Callable[[Mapping[str, Any]], _Attrs] = lambda options: options
    labels: bool = False
    classes: bool = False
    weights: str = ""
    places: bool = False


_LABELS: dict[str, Any] = {"labels": True, "classes": True}
_PLAIN = _Rule(OpCode.CROSS_ENTROPY_GRAD, OpCode.CROSS_ENTROPY_EVAL, **_LABELS)
"""Cross-entropy without any option, which has operations of its own."""
_SOFT = _Rule(
    OpCode.SOFT_CROSS_ENTROPY_GRAD,
    OpCode.SOFT_CROSS_ENTROPY_EVAL,
    lambda o: {**o, "smoothing": o["label_smoothing"]},
    classes=True,
    weights="weight",
)
"""Cross-entropy with probabilities as targets."""
_PLACES = _Rule(
    OpCode.PLACES_CROSS_ENTROPY_GRAD,
    OpCode.PLACES_CROSS_ENTROPY_EVAL,
    _SOFT.attrs,
    weights="weight",
    places=True,
)
"""Cross-entropy of outputs with more dimensions than classes."""
_HUBER = (OpCode.HUBER_GRAD, OpCode.HUBER_EVAL)
_RULES: dict[type[Loss], _Rule] = {
    CrossEntropyLoss: _Rule(
        OpCode.WEIGHTED_CROSS_ENTROPY_GRAD,
        OpCode.WEIGHTED_CROSS_ENTROPY_EVAL,
        lambda o: {**o, "smoothing": o["label_smoothing"]},
        **_LABELS,
        weights="weight",
    ),
    NLLLoss: _Rule(OpCode.NLL_GRAD, OpCode.NLL_EVAL, **_LABELS, weights="weight"),
    BCEWithLogitsLoss: _Rule(
        OpCode.BCE_WITH_LOGITS_GRAD, OpCode.BCE_WITH_LOGITS_EVAL, weights="pos_weight"
    ),
    MSELoss: _Rule(OpCode.MSE_GRAD, OpCode.MSE_EVAL),
    L1Loss: _Rule(*_HUBER, lambda o: {"bound": 0.0, "scale": 1.0}),
    SmoothL1Loss: _Rule(*_HUBER, lambda o: {"bound": o["beta"], "scale": 1.0}),
    HuberLoss: _Rule(*_HUBER, lambda o: {"bound": o["delta"], "scale": o["delta"]}),
    KLDivLoss: _Rule(
        OpCode.KL_DIV_GRAD,
        OpCode.KL_DIV_EVAL,
        lambda o: {"log_target": o["log_target"], "batchmean": o["reduction"] == "batchmean"},
    ),
    CosineEmbeddingLoss: _Rule(OpCode.COSINE_EMBEDDING_GRAD, OpCode.COSINE_EMBEDDING_EVAL),
}


def _rule(loss: Loss, output_shape: tuple[int, ...]) -> _Rule:
    """Return the rule of a loss of an output."""
    if loss.options.get("probabilities"):
        return _SOFT
    if isinstance(loss, CrossEntropyLoss) and len(output_shape) in (3, 4):
        return _PLACES
    return _PLAIN if loss == CrossEntropyLoss() else _RULES[type(loss)]


def check_loss(loss: object, output_shape: tuple[int, ...]) -> Loss:
    """Return `loss` if it fits an output of `output_shape`, a subclass without code as its class.

    Raises
    ------
    ArgumentError
        Not a loss, a subclass with code of its own, or a label to ignore that float32 lacks.
    ShapeError
        Labels for something else than (N, classes).
    """
    known = plain_loss(loss, _RULES) if isinstance(loss, Loss) else None
    if known is None:
        *names, last = (f"nn.{kind.__name__}()" for kind in _RULES)
        got = what_was_given(loss, "nn.parse_loss makes a loss of a text", "nn.{}()")
        raise ArgumentError(f"loss needs {', '.join(names)} or {last}, got {got}")
    if _rule(known, output_shape).classes and len(output_shape) != 2:
        raise ShapeError(
            f"{type(known).__name__} needs logits of shape (N, classes), the network returns "
            f"{output_shape}; end it with nn.Flatten() and nn.Linear(..., classes), or give labels "
            "of places, (N, ...), to nn.CrossEntropyLoss() of (N, classes, ...)"
        )
    _check_features(known, output_shape)
    return known


def _check_features(loss: Loss, output_shape: tuple[int, ...]) -> None:
    """Refuse weights that the output's features do not have, and a label that no float is."""
    name, rule = type(loss).__name__, _rule(loss, output_shape)
    features = output_shape[1 if rule.places else -1]
    weights = loss.options.get(rule.weights) or ()
    one_for_all = len(weights) == 1 and not (rule.classes or rule.places)
    rank = len(output_shape) if rule.places else 2
    if weights and not one_for_all and (len(output_shape), len(weights)) != (rank, features):
        raise ShapeError(
            f"{name}: {rule.weights} has {len(weights)} numbers, the network returns "
            f"{output_shape}; give one for each feature of an output (N, features)"
        )
    if len(weights) > MAX_WEIGHTS:
        raise ShapeError(f"{name}: {len(weights)} weights, a plan holds at most {MAX_WEIGHTS}")
    ignored = loss.options.get("ignore_index", NO_LABEL)
    if rule.places and abs(ignored) > MAX_INDICES:
        raise ArgumentError(
            f"{name}: ignore_index={ignored} is no label of a place: they are float32, which has "
            f"all whole numbers to {MAX_INDICES} only; give such places a smaller one, as -1"
        )


def order_read(loss: Loss, output_shape: tuple[int, ...]) -> str | None:
    """Return 'plain' or 'image' where the loss gives a meaning to the place of a feature.

    Others permute their target.
    """
    rule = _rule(loss, output_shape)
    if rule.places:
        return "image"
    return "plain" if rule.labels or len(loss.options.get(rule.weights) or ()) > 1 else None


def _target(fwd: Forward, rule: _Rule) -> TensorId:
    """Make the tensor of the batch of targets."""
    dims, layout = fwd.layout(fwd.graph.output)
    if rule.places:
        shape = fwd.graph.nodes[fwd.graph.output].shape
        return fwd.emitter.tensor(
            "target", Role.TARGET, (shape[0], *shape[2:]), phase=fwd.phase, batched=True
        )
    if rule.labels:
        return fwd.emitter.tensor(
            "target", Role.TARGET, dims[:1], phase=fwd.phase, dtype=DType.I32, batched=True
        )
    return fwd.emitter.tensor(
        "target", Role.TARGET, dims, phase=fwd.phase, layout=layout, batched=True
    )


def _metric(fwd: Forward, name: str, dtype: DType) -> TensorId:
    """Make the tensor of a number that is read after the phase."""
    return fwd.emitter.tensor(name, Role.METRIC, (1,), phase=fwd.phase, dtype=dtype)


def emit_train_loss(fwd: Forward, loss: Loss) -> tuple[Step, TensorId]:
    """Return the loss step and the tensor of the output's gradient."""
    output = fwd.graph.output
    rule, (dims, layout) = _rule(loss, fwd.graph.nodes[output].shape), fwd.layout(output)
    y, target = fwd.value(output), _target(fwd, rule)
    value = _metric(fwd, "loss", DType.F64)
    dy = fwd.emitter.tensor(
        f"{fwd.name(output)}.grad", Role.DERIVATIVE, dims, layout=layout, batched=True
    )
    (gradient, source), *_ = spec_of(rule.train).inplace
    operands = {source: y, "target": target, "loss": value, gradient: dy}
    place, attrs = Place(Phase.TRAIN, "loss", "L"), rule.attrs(loss.options)
    return fwd.emitter.step(rule.train, place, attrs, **operands), dy


def emit_eval_loss(fwd: Forward, loss: Loss) -> Step:
    """Return the loss step of an evaluation."""
    rule = _rule(loss, fwd.graph.nodes[fwd.graph.output].shape)
    ((_, source), *_), slots = spec_of(rule.train).inplace, spec_of(rule.evaluate).operand_index
    y, target = fwd.value(fwd.graph.output), _target(fwd, rule)
    operands = {source: y, "target": target, "loss": _metric(fwd, "loss", DType.F64)}
    if "correct" in slots:
        operands["correct"] = _metric(fwd, "correct", DType.I64)
    place, attrs = Place(Phase.EVALUATE, "loss", "L"), rule.attrs(loss.options)
    return fwd.emitter.step(rule.evaluate, place, attrs, **operands)
