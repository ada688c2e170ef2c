"""Ways to lie that a plan file has: both the independent checker and the engine name each."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.dtypes import STACK_BYTES, DType
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Phase, Program, Role, TensorId
from armtrain.planfile.assemble import assemble
from armtrain.planfile.check import findings
from armtrain.planfile.write import encode
from armtrain.runtime.engine import engine_module
from tests.plan_edit import Edit
from tests.plans import ProgramBuilder


def planned(net: nn.Module, shape: tuple[int, ...], loss: nn.Module, **options: object) -> bytes:
    """Return the plan of a network for batches of three."""
    made = at.plan(net, input_shape=shape, batch_size=3, loss=loss, **options)  # type: ignore[arg-type]
    return made.to_bytes()


def images() -> bytes:
    """Return a plan with batch norm, an in-place view, momentum and clipping."""
    net = nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(4)),
        *(nn.Flatten(), nn.Tanh(), nn.Linear(16, 3)),
    )
    sgd = optim.SGD(lr=0.1, momentum=0.9)
    loss = nn.CrossEntropyLoss()
    return planned(net, (2, 8, 8), loss, optimizer=sgd, clip_norm=1.0, threads=1)


def vectors() -> bytes:
    """Return a plan of three equal layers, with the squared error and Adam."""
    net = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, 5))
    return planned(net, (5,), nn.MSELoss(), optimizer=optim.Adam(lr=0.1), threads=1)


def enlarged() -> bytes:
    """Return a plan of what makes images larger, or of a given size."""
    net = nn.Sequential(
        *(nn.ConvTranspose2d(2, 4, 3, stride=2), nn.Upsample(scale_factor=1.5)),
        *(nn.AdaptiveAvgPool2d((3, 4)), nn.Flatten(), nn.Linear(48, 3)),
    )
    return planned(net, (2, 4, 4), nn.MSELoss(), optimizer=optim.SGD(lr=0.1), threads=1)


class Tables(nn.Module):
    """Two tables that have more rows than a batch has indices."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Embedding(20, 4), nn.Embedding(20, 4)

    def forward(self, x: Any) -> Any:
        """Return the product of a row of each."""
        return self.a(x[:, 0]) * self.b(x[:, 1])


def tables() -> bytes:
    """Return a plan of two tables."""
    options = {"optimizer": optim.Adagrad(lr=0.1), "threads": 1, "free_recompute": False}
    return planned(Tables(), (2,), nn.MSELoss(), **options)


CASES: dict[str, tuple[Callable[[], bytes], Callable[[Edit], None], str, str]] = {}
"""Name -> plan, change, what the checker says, what the engine says."""


def case(
    make: Callable[[], bytes], checker: str, engine: str = ""
) -> Callable[[Callable[[Edit], None]], Callable[[Edit], None]]:
    """Register a lie under its function's name; the engine says the same unless told."""

    def register(change: Callable[[Edit], None]) -> Callable[[Edit], None]:
        CASES[change.__name__] = (make, change, checker, engine or checker)
        return change

    return register


# Where samples enter, and where loss and results leave.


@case(images, "'loss' has role SAVED", "'loss' has role 7")
def role_of_loss(e: Edit) -> None:
    e.set("loss", "role", Role.SAVED)


@case(images, "'eval:correct' has role SAVED", "'eval:correct' has role 7")
def role_of_correct(e: Edit) -> None:
    e.set("eval:correct", "role", Role.SAVED)


@case(images, "'clip.sumsq' has role SAVED", "'clip.sumsq', has role 7")
def role_of_gradient_norms(e: Edit) -> None:
    e.set("clip.sumsq", "role", Role.SAVED)


@case(images, "two tensors 'x' and 'eval:x' are the input at step")
def two_inputs(e: Edit) -> None:
    e.set("x", "last", e.first_step(Phase.EVALUATE) + 1)


@case(images, "no tensor is the output at step")
def no_output(e: Edit) -> None:
    e.set("predict:output", "role", Role.ACTIVATION)


@case(images, "the evaluate phase has two losses, at steps")
def two_losses(e: Edit) -> None:
    e.operation(e.step(OpCode.LINEAR_FWD, Phase.EVALUATE), OpCode.CROSS_ENTROPY_EVAL)


@case(images, "the evaluate phase has no loss")
def no_loss(e: Edit) -> None:
    e.operation(e.step(OpCode.CROSS_ENTROPY_EVAL, Phase.EVALUATE), OpCode.LINEAR_FWD)


@case(images, "the loss's target 'target' is not a batch of labels or float32")
def role_of_target(e: Edit) -> None:
    e.set("target", "role", Role.ACTIVATION)


@case(vectors, "the loss's target 'x' is not a batch of labels or float32")
def target_that_is_the_input(e: Edit) -> None:
    e.operand(e.step(OpCode.MSE_GRAD, Phase.TRAIN), "target", "x")


@case(images, "the target 'target' is live from step 1 only")
def target_that_comes_late(e: Edit) -> None:
    e.set("target", "first", 1)


@case(vectors, "which nothing has written before in this phase")
def input_of_another_phase(e: Edit) -> None:
    e.set("predict:x", "first", e.first_step(Phase.EVALUATE) + 1)
    e.operand(e.step(OpCode.TANH_FWD, Phase.EVALUATE), "x", "predict:x")


@case(vectors, "reads 'x', which 'target' has overwritten in place")
def input_and_target_in_one_place(e: Edit) -> None:
    e.set("x", "last", e.first_step(Phase.EVALUATE))
    e.share("target", "x")


# Shapes of which the elements alone are right.


@case(vectors, "operands have rows", "elements in 25 rows, needs 25 in 5")
def rows_of_state(e: Edit) -> None:
    for element, value in enumerate((25, 1)):
        e.set("2.weight/exp_avg", "dims", value, element)


@case(images, "w '6.weight' has dimensions (3, 16), needs (16, 3)", "linear_fwd.w has dimension 0")
def sides_of_a_weight(e: Edit) -> None:
    for element, value in enumerate((3, 16)):
        e.set("6.weight", "dims", value, element)


@case(enlarged, "y '1.out' has 8112 B, needs 8736 B", "13 pixels along axis 1, 9 of")
def scale_of_other_sides(e: Edit) -> None:
    scale = int.from_bytes(struct.pack("<d", 1.6), "little")
    e.integer(e.step(OpCode.UPSAMPLE_NEAREST2D_FWD, Phase.TRAIN), "scale_h", scale)


@case(enlarged, "x 'x' has 384 B, needs 672 B", "conv_transpose2d_fwd.x")
def stride_of_a_transposed_convolution(e: Edit) -> None:
    e.integer(e.step(OpCode.CONV_TRANSPOSE2D_FWD, Phase.TRAIN), "stride_h", 1)


# Values that are not there, or not any more.


@case(images, "reads 'eval:2.out', which nothing has written before in this phase")
def result_read_before_it_is_made(e: Edit) -> None:
    e.operand(e.step(OpCode.RELU_FWD, Phase.EVALUATE), "x", "eval:2.out")


@case(images, "reads 'eval:4.out', which 'eval:5.out' has overwritten in place")
def view_read_after_its_value(e: Edit) -> None:
    e.operand(e.step(OpCode.LINEAR_FWD, Phase.EVALUATE), "x", "eval:4.out")


@case(vectors, "reads '3.weight', which an earlier step of the phase has updated")
def weight_read_after_its_update(e: Edit) -> None:
    e.operand(e.step(OpCode.LINEAR_GRAD_X, Phase.TRAIN, -1), "w", "3.weight")


@case(images, "fills slot 0 of 'clip.sumsq' again")
def gradient_norm_twice(e: Edit) -> None:
    for nth in range(6):
        e.integer(e.step(OpCode.GRAD_SUMSQ, Phase.TRAIN, nth), "index", min(nth, 4) % 4)


@case(images, "fills 'loss', but 'clip.sumsq' holds the phase's gradient norms")
def gradient_norm_elsewhere(e: Edit) -> None:
    step = e.step(OpCode.GRAD_SUMSQ, Phase.TRAIN, -1)
    e.operand(step, "acc", "loss")
    e.integer(step, "index", 0)


@case(images, "gradients filled 0 of 1 slots of 'loss'", "gradients filled 0 of 1 slots")
def gradient_norms_of_something_else(e: Edit) -> None:
    e.operand(e.step(OpCode.CLIP_SCALE, Phase.TRAIN), "acc", "loss")


@case(images, "is shared with others", "one of them is scratch or a result")
def result_that_shares_its_place(e: Edit) -> None:
    e.share("clip.scale", "loss")


@case(images, "the workspace '0.conv2d_fwd.ws' is shared", "one of them is scratch or a result")
def scratch_that_shares_its_place(e: Edit) -> None:
    e.share("0.conv2d_fwd.ws", "1.batchnorm2d_fwd.ws")


# Values of the right size that mean something else: the first update of `vectors` is that of
# 3.weight, the third that of 2.weight.


@case(vectors, "m '2.weight/exp_avg_sq' is not '2.weight/exp_avg'", "'2.weight/exp_avg' expected")
def moments_exchanged(e: Edit) -> None:
    step = e.step(OpCode.ADAM_STEP, Phase.TRAIN, 2)
    e.operand(step, "m", "2.weight/exp_avg_sq")
    e.operand(step, "v", "2.weight/exp_avg")


@case(vectors, "v '0.weight/exp_avg_sq' is not '2.weight/exp_avg_sq'", "_avg' expected")
def moments_of_other_parameters_exchanged(e: Edit) -> None:
    for nth, other in ((2, "0.weight"), (4, "2.weight")):
        step = e.step(OpCode.ADAM_STEP, Phase.TRAIN, nth)
        e.operand(step, "m", f"{other}/exp_avg")
        e.operand(step, "v", f"{other}/exp_avg_sq")


@case(images, "momentum '1.bias/momentum' is not '1.weight/momentum'", "'1.weight/mom")
def momentum_of_another_parameter(e: Edit) -> None:
    for nth, other in ((2, "1.bias"), (3, "1.weight")):
        e.operand(e.step(OpCode.SGD_STEP, Phase.TRAIN, nth), "momentum", f"{other}/momentum")


@case(images, "g '1.bias.grad' is not '1.weight.grad'", "'1.weight.grad' expected")
def gradient_of_another_parameter(e: Edit) -> None:
    e.operand(e.step(OpCode.SGD_STEP, Phase.TRAIN, 2), "g", "1.bias.grad")


@case(images, "mean '1.weight' has role WEIGHT, needs BUFFER", "'1.weight', has role 0")
def statistics_that_are_a_parameter(e: Edit) -> None:
    step = e.step(OpCode.BATCHNORM2D_EVAL, Phase.EVALUATE)
    e.operand(step, "mean", "1.weight")


@case(images, "gamma '1.running_var' has role BUFFER, needs WEIGHT", "'1.running_var', has role 2")
def parameter_that_is_a_statistic(e: Edit) -> None:
    e.operand(e.step(OpCode.BATCHNORM2D_EVAL, Phase.EVALUATE), "gamma", "1.running_var")


# Rows of tables that a batch does not name would change, or have the gradient of others.


@case(tables, "weight_decay above 0 or eps 0 changes", "has weight_decay 0 and eps 0; all rows ")
def eps_without_which_all_rows_change(e: Edit) -> None:
    e.integer(e.step(OpCode.EMBEDDING_ADAGRAD_STEP, Phase.TRAIN), "eps", 0)


@case(tables, "w 'a.weight/sum' has role STATE, needs WEIGHT", "'a.weight/sum', has role 3")
def table_that_is_a_state(e: Edit) -> None:
    e.operand(e.step(OpCode.EMBEDDING_FWD, Phase.EVALUATE), "w", "a.weight/sum")


@case(tables, "no earlier step has made 'b.weight.grad' for the indices 'reshape.out'")
def rows_of_other_indices(e: Edit) -> None:
    e.operand(e.step(OpCode.EMBEDDING_ADAGRAD_STEP, Phase.TRAIN), "x", "reshape.out")


@case(tables, "rows 'b.weight.grad' has role DERIVATIVE, needs GRADIENT", "'b.weight.grad', has ")
def rows_that_are_no_gradient(e: Edit) -> None:
    e.set("b.weight.grad", "role", Role.DERIVATIVE)


@pytest.mark.parametrize("name", CASES)
def test_both_name_the_lie(name: str) -> None:
    make, change, checker, engine = CASES[name]
    edit = Edit(make())
    assert findings(edit.content) == []
    engine_module().Engine(edit.content, ignore_memory=True).close()
    change(edit)
    assert checker in "; ".join(findings(edit.content))
    with pytest.raises(at.ArmtrainError, match=re.escape(engine)):
        engine_module().Engine(edit.content, ignore_memory=True).close()


# Plans that no change of one number makes.


def regression(change: Callable[[ProgramBuilder], None], threads: int = 1) -> Program:
    """Return a program without training: y = tanh(x) w, in all three phases as `change` adds."""
    b = ProgramBuilder(3, threads)
    b.linear_weights("0", 4, 1)
    change(b)
    return b.program("input 3x4\n0 linear 4 1\n", "mse", "sgd:lr=0.1", (4,))


def predict(b: ProgramBuilder, batched: bool = True, features: int = 4) -> None:
    """Append a prediction of which the inner value is read through a view."""
    b.phase = Phase.PREDICT
    x = b.tensor("predict:x", Role.INPUT, (3, features), batched=True)
    y = b.tensor("y", Role.ACTIVATION, (3, features), batched=True)
    view = b.tensor("view", Role.ACTIVATION, (3, features), batched=batched, same_as=y)
    z = b.tensor("z", Role.ACTIVATION, (3, features), batched=batched)
    back = b.tensor("back", Role.ACTIVATION, (3, features), batched=True, same_as=z)
    out = b.tensor("out", Role.OUTPUT, (3, 1), batched=True)
    b.step(OpCode.TANH_FWD, "0", "F", x=x, y=y)
    b.step(OpCode.TANH_FWD, "0", "F", x=view, y=z)
    b.step(OpCode.LINEAR_FWD, "0", "F", x=back, w=TensorId(0), b=TensorId(1), y=out)


def evaluate(b: ProgramBuilder, features: int) -> None:
    """Append an evaluation of the squares of its input against a target."""
    b.phase = Phase.EVALUATE
    x = b.tensor("eval:x", Role.INPUT, (3, features), batched=True)
    target = b.tensor("eval:target", Role.TARGET, (3, features), batched=True)
    loss = b.tensor("eval:loss", Role.METRIC, (1,), dtype=DType.F64)
    b.step(OpCode.MSE_EVAL, "loss", "L", y=x, target=target, loss=loss)


def stacks(b: ProgramBuilder, count: int) -> None:
    """Append the stacks of two more threads in some tensors."""
    for index in range(count):
        b.tensor(f"stack{index}", Role.STACK, (2 // count * STACK_BYTES,), dtype=DType.U8)


def with_threads(count: int) -> Program:
    """Return a program for three threads."""
    return regression(lambda b: (predict(b), stacks(b, count))[0], threads=3)


def with_evaluation(features: int) -> Program:
    """Return a program whose evaluation has so many features."""
    return regression(lambda b: (evaluate(b, features), predict(b))[0])


WRITTEN = (
    (with_evaluation(4), with_evaluation(5), "the inputs 'eval:x' and 'predict:x' of two phases"),
    (with_threads(1), with_threads(2), "262144 B"),
    (regression(predict), regression(lambda b: predict(b, batched=False)), "as a view of"),
)


@pytest.mark.parametrize(("good", "bad", "cause"), WRITTEN, ids=("inputs", "stacks", "batch"))
def test_both_name_a_whole_plan(good: Program, bad: Program, cause: str) -> None:
    assert findings(encode(assemble(good))) == []
    engine_module().Engine(encode(assemble(good)), ignore_memory=True).close()
    content = encode(assemble(bad))
    assert cause in "; ".join(findings(content))
    with pytest.raises(at.PlanError):
        engine_module().Engine(content, ignore_memory=True).close()
