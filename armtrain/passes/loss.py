"""Loss steps: value and gradient in TRAIN, value and correct count in EVALUATE."""

from __future__ import annotations

from armtrain.dtypes import DType
from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Phase, Role, Step, TensorId
from armtrain.nn.losses import CrossEntropyLoss, Loss, MSELoss
from armtrain.passes.emit import Place
from armtrain.passes.forward import Forward

__all__ = ["check_loss", "emit_eval_loss", "emit_train_loss", "reads_torch_order"]


def check_loss(loss: object, output_shape: tuple[int, ...]) -> Loss:
    """Return `loss` if it fits an output of `output_shape`.

    Raises
    ------
    ArgumentError
        Not a loss.
    ShapeError
        Cross-entropy on something else than (N, classes).
    """
    if not isinstance(loss, CrossEntropyLoss | MSELoss):
        raise ArgumentError(
            f"loss needs nn.CrossEntropyLoss() or nn.MSELoss(), got {type(loss).__name__}"
        )
    if isinstance(loss, CrossEntropyLoss) and len(output_shape) != 2:
        raise ShapeError(
            f"CrossEntropyLoss needs logits of shape (N, classes), the network returns "
            f"{output_shape}; end it with nn.Flatten() and nn.Linear(..., classes)"
        )
    return loss


def reads_torch_order(loss: Loss) -> bool:
    """Whether the loss gives a meaning to the place of a feature; MSE permutes its target."""
    return isinstance(loss, CrossEntropyLoss)


def _target(fwd: Forward, loss: Loss) -> TensorId:
    """Make the tensor of the batch of targets."""
    dims, layout = fwd.layout(fwd.graph.output)
    if isinstance(loss, CrossEntropyLoss):
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
    dims, layout = fwd.layout(output)
    y, target = fwd.value(output), _target(fwd, loss)
    value = _metric(fwd, "loss", DType.F64)
    name = f"{fwd.name(output)}.grad"
    dy = fwd.emitter.tensor(name, Role.DERIVATIVE, dims, layout=layout, batched=True)
    place, step = Place(Phase.TRAIN, "loss", "L"), fwd.emitter.step
    if isinstance(loss, CrossEntropyLoss):
        op = OpCode.CROSS_ENTROPY_GRAD
        return step(op, place, logits=y, target=target, loss=value, dlogits=dy), dy
    return step(OpCode.MSE_GRAD, place, y=y, target=target, loss=value, dy=dy), dy


def emit_eval_loss(fwd: Forward, loss: Loss) -> Step:
    """Return the loss step of an evaluation."""
    y, target = fwd.value(fwd.graph.output), _target(fwd, loss)
    value = _metric(fwd, "loss", DType.F64)
    place, step = Place(Phase.EVALUATE, "loss", "L"), fwd.emitter.step
    if isinstance(loss, CrossEntropyLoss):
        correct = _metric(fwd, "correct", DType.I64)
        op = OpCode.CROSS_ENTROPY_EVAL
        return step(op, place, logits=y, target=target, loss=value, correct=correct)
    return step(OpCode.MSE_EVAL, place, y=y, target=target, loss=value)
