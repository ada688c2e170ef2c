"""What programs look like: storages shared, steps in order, nothing kept for frozen layers."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from armtrain import nn, optim
from armtrain.dtypes import STACK_BYTES
from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.ops import OpCode
from armtrain.ir.program import Phase, Program, Role
from armtrain.ir.text import program_text
from armtrain.passes.emit import stream_of_name
from armtrain.passes.pipeline import compile_program, compile_stages
from tests.unit.passes.nets import NETS, build


class Block(nn.Module):
    """relu(bn(conv(x)) + x) between two convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.conv = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(64, 2)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        x = self.stem(x).relu()
        x = (self.bn(self.conv(x)) + x).relu()
        return self.fc(x.flatten(1))


def program_of(net: nn.Module, shape: tuple[int, ...], **options: Any) -> Program:
    defaults = {
        "batch_size": 2,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(lr=0.1),
        "threads": 1,
    }
    return compile_program(net, input_shape=shape, **{**defaults, **options})


def together(program: Program, *names: str) -> bool:
    """Whether the tensors share one storage."""
    return len({t.storage for t in program.tensors if t.name in names}) == 1


def kinds(program: Program, phase: Phase = Phase.TRAIN) -> list[tuple[str, str]]:
    return [(s.kind, s.op.name) for s in program.steps if s.phase == phase]


def test_residual_block_works_in_place() -> None:
    program = program_of(Block(), (3, 4, 4))
    # ReLU on its convolution; sum and second ReLU on the batch norm's result.
    assert together(program, "stem.out", "relu.out")
    assert together(program, "bn.out", "add.out", "relu#2.out", "flatten.out")
    # What backward reads is untouched: the convolution's result and the first ReLU's.
    assert not together(program, "conv.out", "bn.out")
    assert not together(program, "relu.out", "add.out")
    # The loss and the second ReLU's gradient.
    assert together(program, "fc.out", "fc.out.grad")
    assert together(program, "relu#2.out.grad", "add.out.grad")
    # The sum's gradient is passed on without a copy, and kept for its second reader.
    assert not together(program, "add.out.grad", "conv.out.grad")
    copies = [s for s in program.steps if s.op == OpCode.COPY]
    assert not copies


def test_inference_needs_one_storage_per_branch() -> None:
    program = program_of(Block(), (3, 4, 4))
    assert together(program, "predict:conv.out", "predict:bn.out", "predict:add.out")
    assert together(program, "predict:stem.out", "predict:relu.out")
    assert not [s for s in program.steps if s.phase != Phase.TRAIN and s.kind in ("CG", "CD", "AG")]


def test_gradient_parts_are_added_in_graph_order() -> None:
    program = program_of(Block(), (3, 4, 4))
    names = {t.id: t.name for t in program.tensors}
    (add,) = [s for s in program.steps if s.op == OpCode.ADD and s.kind == "CD"]
    # 'conv' uses the value first, the sum second, whatever was differentiated first.
    a, b, y = (names[i] for i in add.operands if i is not None)
    assert (a, b, y) == ("relu.out.grad@conv", "add.out.grad", "relu.out.grad")
    assert add.layer == "conv"


def test_input_with_later_reader_is_not_overwritten() -> None:
    program = program_of(build(nn, "SelfSum"), NETS["SelfSum"])
    assert not together(program, "a.out", "relu.out")
    # The sum takes the operand that backward does not read.
    assert together(program, "a.out", "add.out")


def test_order_of_a_step() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    assert kinds(program_of(net, (3,))) == [
        ("F", "LINEAR_FWD"),
        ("F", "TANH_FWD"),
        ("F", "LINEAR_FWD"),
        ("L", "CROSS_ENTROPY_GRAD"),
        ("CG", "LINEAR_GRAD_W"),
        ("CD", "LINEAR_GRAD_X"),
        ("AG", "SGD_STEP"),
        ("AG", "SGD_STEP"),
        ("CD", "TANH_GRAD"),
        ("CG", "LINEAR_GRAD_W"),
        ("AG", "SGD_STEP"),
        ("AG", "SGD_STEP"),
    ]


def test_clipping_measures_every_gradient_before_any_update() -> None:
    program = program_of(Block(), (3, 4, 4), clip_norm=1.0)
    ops = [s.op for s in program.steps if s.phase == Phase.TRAIN]
    clip = ops.index(OpCode.CLIP_SCALE)
    norms = [s for s in program.steps if s.op == OpCode.GRAD_SUMSQ]
    assert sorted(s.attrs[0] for s in norms) == list(range(7))
    assert max(i for i, op in enumerate(ops) if op == OpCode.GRAD_SUMSQ) < clip
    assert ops[clip + 1 :] == [OpCode.SGD_STEP] * 7


def test_frozen_part_costs_nothing() -> None:
    net = Block()
    for layer in (net.stem, net.conv, net.bn):
        layer.requires_grad_(False).eval()
    program = program_of(net, (3, 4, 4), optimizer=optim.Adam(lr=0.1))
    assert [n for k, n in kinds(program) if k in ("CG", "CD", "AG")] == [
        "LINEAR_GRAD_W",
        "ADAM_STEP",
        "ADAM_STEP",
    ]
    states = {t.name for t in program.tensors if t.role == Role.STATE}
    assert states == {f"fc.{p}/{s}" for p in ("weight", "bias") for s in ("exp_avg", "exp_avg_sq")}
    assert not [t for t in program.tensors if t.role == Role.SAVED]
    # Even the batch norm works in place: nobody will read its input.
    assert together(program, "conv.out", "bn.out", "add.out", "relu#2.out")


def test_train_only_freezes_statistics_too() -> None:
    program = program_of(Block(), (3, 4, 4), train_only="fc.*")
    ops = [s.op for s in program.steps]
    assert OpCode.BATCHNORM2D_FWD not in ops
    roles = {t.name: t.role for t in program.tensors}
    assert roles["fc.weight"] == Role.WEIGHT
    assert roles["conv.weight"] == roles["bn.weight"] == Role.FROZEN


def test_flatten_is_folded_into_the_weight() -> None:
    program = program_of(Block(), (3, 4, 4))
    weight = next(t for t in program.tensors if t.name == "fc.weight")
    assert weight.dims == (64, 2)
    assert (weight.layout.view, weight.layout.perm) == ((2, 4, 4, 4), (2, 3, 1, 0))
    assert not [s for s in program.steps if s.op in (OpCode.NHWC_TO_NCHW, OpCode.NCHW_TO_NHWC)]


def test_arena_layouts() -> None:
    program = program_of(Block(), (3, 4, 4))
    tensors = {t.name: t for t in program.tensors}
    assert tensors["x"].dims == (2, 4, 4, 3)
    assert tensors["x"].layout.perm == (0, 2, 3, 1)
    assert tensors["stem.weight"].dims == (1, 3, 3, 3, 4)
    assert tensors["stem.weight"].layout.view == (1, 4, 3, 3, 3)
    assert tensors["stem.weight"].layout.perm == (0, 3, 4, 2, 1)
    assert tensors["stem.weight.grad"].layout == tensors["stem.weight"].layout


def test_roles_and_names_of_the_interface() -> None:
    program = program_of(Block(), (3, 4, 4), threads=3, clip_norm=2.0)
    expected = {
        Role.INPUT: {"x", "eval:x", "predict:x"},
        Role.TARGET: {"target", "eval:target"},
        Role.METRIC: {"loss", "eval:loss", "eval:correct", "clip.sumsq", "clip.scale"},
        Role.OUTPUT: {"predict:output"},
        Role.STACK: {"thread_stacks"},
        Role.STATE: set(),
    }
    for role, names in expected.items():
        assert {t.name for t in program.tensors if t.role == role} == names
    stacks = next(t for t in program.tensors if t.role == Role.STACK)
    assert stacks.dims == (2 * STACK_BYTES,)
    texts = (program.loss, program.optimizer, program.clip_norm, program.input_shape)
    assert texts == ("cross_entropy", "sgd:lr=0.1", 2.0, (3, 4, 4))


def test_unused_parameters_are_kept_frozen_and_named() -> None:
    net = Block()
    net.spare = nn.Linear(2, 2)
    with pytest.warns(UserWarning, match="2 parameters do not reach.*spare.weight, spare.bias"):
        program = program_of(net, (3, 4, 4))
    roles = {t.name: t.role for t in program.tensors}
    assert roles["spare.weight"] == Role.FROZEN


def test_dropout_streams_are_keyed_by_name() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2), nn.Dropout(0.5).eval())
    program = program_of(net, (4,))
    steps = [s for s in program.steps if s.op in (OpCode.DROPOUT_FWD, OpCode.DROPOUT_GRAD)]
    assert [s.attrs for s in steps] == [(0.5, stream_of_name("1"))] * 2
    assert all(s.phase == Phase.TRAIN for s in steps)
    assert stream_of_name("a") == 0xAF63DC4C8601EC8C - (1 << 64)


def test_image_target_is_permuted_not_the_output() -> None:
    program = program_of(build(nn, "ImageOut"), NETS["ImageOut"], loss=nn.MSELoss())
    tensors = {t.name: t for t in program.tensors}
    assert tensors["target"].layout == tensors["b.out"].layout
    assert tensors["predict:output"].layout.perm == (0, 2, 3, 1)
    assert "eval:correct" not in tensors


def test_dump_shows_every_stage() -> None:
    stages = compile_stages(
        Block(),
        input_shape=(3, 4, 4),
        batch_size=2,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.1),
    )
    text = stages.dump()
    for title in ("== traced ==", "== trained ==", "== laid out ==", "== program =="):
        assert title in text
    assert "cd linear_grad_x" in text.lower()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "mse"}, "loss needs nn.CrossEntropyLoss"),
        ({"optimizer": 0.1}, "optimizer needs optim.SGD"),
        ({"clip_norm": 0.0}, "clip_norm, .* needs a finite number from 1.17549e-38"),
        ({"threads": 0}, "threads needs an integer from 1 to 64, got 0"),
        ({"batch_size": 0}, "batch_size needs"),
        ({"train_only": "head.*"}, "'head.*' fits no parameter; similar"),
        ({"train_only": "bn.running_mean"}, "nothing to train"),
        ({"param_groups": [{"lr": 1.0}]}, r"param_groups\[0\] needs 'params'"),
        ({"param_groups": [{"params": "nope"}]}, "'nope' fits no parameter"),
        ({"param_groups": [{"params": "fc"}, {"params": "fc.bias"}]}, "in an earlier group"),
        ({"param_groups": [{"params": "fc", "beta": 1}]}, "has no 'beta'"),
        ({"param_groups": [{"params": "fc", "lr": -1}]}, "lr needs a finite number from 0"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    wanted = ShapeError if "nothing" in message else ArgumentError
    with pytest.raises(wanted, match=message):
        program_of(Block(), (3, 4, 4), **options)


def test_nothing_to_train_is_refused_with_the_way_out() -> None:
    net = Block()
    net.requires_grad_(False)
    with pytest.raises(ShapeError, match=r"none of the network's 7 parameters.*requires_grad_\(\)"):
        program_of(net, (3, 4, 4))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (nn.CrossEntropyLoss([1.0, 2.0]), r"weight has 2 numbers, .* \(2, 3\)"),
        (nn.NLLLoss([1.0] * 4), "weight has 4 numbers"),
        (nn.NLLLoss([1.0]), "weight has 1 numbers"),
        (nn.CrossEntropyLoss([1.0], probabilities=True), "weight has 1 numbers"),
        (nn.BCEWithLogitsLoss(pos_weight=[1.0, 2.0]), "pos_weight has 2 numbers"),
    ],
)
def test_losses_need_weights_of_the_outputs_features(loss: nn.Loss, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        program_of(nn.Linear(4, 3), (4,), loss=loss)


def test_an_ignored_label_of_places_is_one_of_float32() -> None:
    for label in (-1, 255, 2**24, -(2**24)):
        assert program_of(
            nn.Conv2d(3, 4, 3), (3, 4, 4), loss=nn.CrossEntropyLoss(ignore_index=label)
        )
    for label in (2**24 + 1, -(2**24) - 1, 2**31 - 1):
        loss = nn.CrossEntropyLoss(ignore_index=label)
        with pytest.raises(
            ArgumentError, match=f"ignore_index={label} is no label of a place: .*16777"
        ):
            program_of(nn.Conv2d(3, 4, 3), (3, 4, 4), loss=loss)
        assert program_of(nn.Linear(4, 3), (4,), loss=loss)


def test_cross_entropy_needs_classes() -> None:
    for loss in (nn.NLLLoss(), nn.CrossEntropyLoss(probabilities=True)):
        with pytest.raises(ShapeError, match=r"logits of shape \(N, classes\).*\(2, 4, 2, 2\)"):
            program_of(nn.Conv2d(3, 4, 3), (3, 4, 4), loss=loss)


def test_shared_convolutions_need_equal_groups() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Conv2d(4, 8, 1)
            self.b = nn.Conv2d(8, 8, 1, groups=2)
            self.b.weight = self.a.weight

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return self.b(self.a(x))

    with pytest.raises(ShapeError, match=r"'a' and 'b' share 'a\.weight' but differ in groups"):
        program_of(Both(), (4, 2, 2), loss=nn.MSELoss())


SCRIPT = """
import sys
from armtrain import nn, optim
from armtrain.ir.text import program_text
from armtrain.passes.pipeline import compile_program
from tests.unit.passes.nets import NETS, build
for name, shape in NETS.items():
    program = compile_program(build(nn, name), input_shape=shape, batch_size=2, loss=nn.MSELoss(),
                              optimizer=optim.Adam(), clip_norm=1.0)
    sys.stdout.write(program.model_text + program_text(program))
"""


def test_programs_do_not_depend_on_the_hash_seed(root: Path) -> None:
    digests = set()
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True
        )
        assert done.stdout
        digests.add(hashlib.sha256(done.stdout).hexdigest())
    assert len(digests) == 1


def test_program_text_names_everything_once() -> None:
    program = program_of(Block(), (3, 4, 4))
    text = program_text(program)
    for tensor in program.tensors:
        assert f"'{tensor.name}'" in text
