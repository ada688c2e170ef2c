"""The zoo: counts, names, and that every model needs no more than it should."""

from __future__ import annotations

from math import prod

import pytest

from armtrain import nn, zoo
from armtrain.passes.pipeline import compile_program
from armtrain.schedule.lifetime import lifetimes_of

# Parameters, running statistics, most MiB live in a step of batch 32 with plain SGD and one
# thread, workspace included (0.01 or 0.02 above the figures when this was written).
EXPECTED = {
    "autoencoder": (209_968, 0, 1.49),
    "conv_s2": (84, 0, 27.58),
    "digits_cnn": (13_706, 0, 0.38),
    "gpt_tiny": (858_880, 16_384, 171.82),
    "lenet": (3_898, 0, 1.07),
    "lenet5": (44_426, 0, 1.23),
    "linear_150528": (45_158_700, 0, 362.97),
    "lstm": (332_298, 0, 8.25),
    "lstm_150528": (6_021_600, 0, 64.34),
    "mlp": (669_706, 0, 4.27),
    "mobilenet_v2": (2_236_682, 34_112, 313.21),
    "model_a_conv": (252, 0, 24.71),
    "model_a_linear": (11_810_916, 0, 77.97),
    "model_c_conv": (84, 0, 32.17),
    "model_c_linear": (1_505_290, 0, 29.88),
    "product_ratings": (18_704, 0, 0.15),
    "resnet18": (11_173_962, 9_600, 196.2),
    "resnet18_imagenet": (11_689_512, 9_600, 690.72),
    "vgg16": (15_245_130, 0, 106.3),
    "vgg16_bn": (15_253_578, 8_448, 139.9),
}
REGRESSIONS = {
    *("autoencoder", "conv_s2", "linear_150528", "lstm_150528"),
    *("model_a_conv", "model_a_linear", "model_c_conv", "model_c_linear"),
    "product_ratings",
}


def count(members: object) -> int:
    return sum(prod(member.shape) for member in members)  # type: ignore[attr-defined]


def test_every_model_is_expected() -> None:
    assert zoo.names() == tuple(sorted(EXPECTED))


@pytest.mark.parametrize("name", EXPECTED)
def test_counts(name: str) -> None:
    net = zoo.entry(name).build()
    assert (count(net.parameters()), count(net.buffers())) == EXPECTED[name][:2]


@pytest.mark.parametrize("name", EXPECTED)
def test_live_bytes(name: str) -> None:
    entry = zoo.entry(name)
    program = compile_program(
        entry.build(),
        input_shape=entry.input_shape,
        batch_size=32,
        loss=entry.loss(),
        optimizer=entry.optimizer(),
        threads=1,
    )
    lifetimes = lifetimes_of(program)
    change = [0] * (lifetimes.n_steps + 1)
    for item in lifetimes.items:
        change[item.first] += item.aligned_bytes
        change[item.last] -= item.aligned_bytes
    most = max(sum(change[: step + 1]) for step in range(lifetimes.n_steps))
    assert most <= EXPECTED[name][2] * 2**20


@pytest.mark.parametrize("name", EXPECTED)
def test_outputs_and_losses(name: str) -> None:
    entry = zoo.entry(name)
    graph = nn.trace(entry.build(), entry.input_shape, 2)
    assert graph.nodes[graph.output].shape == (2, *entry.output_shape)
    assert entry.loss() == (nn.MSELoss() if name in REGRESSIONS else nn.CrossEntropyLoss())
    assert entry.optimizer().text == "sgd:lr=0.01"


def test_resnet_names_are_torchvision_names() -> None:
    names = [name for name, _ in zoo.entry("resnet18").build().named_parameters()]
    assert names[:3] == ["conv1.weight", "bn1.weight", "bn1.bias"]
    assert "layer1.0.conv1.weight" in names
    assert "layer2.0.downsample.0.weight" in names
    assert "layer2.0.downsample.1.bias" in names
    assert names[-2:] == ["fc.weight", "fc.bias"]


def test_mobilenet_names_are_torchvision_names() -> None:
    names = [name for name, _ in zoo.entry("mobilenet_v2").build().named_parameters()]
    assert names[:2] == ["features.0.0.weight", "features.0.1.weight"]
    assert names[3:6] == [
        *("features.1.conv.0.0.weight", "features.1.conv.0.1.weight"),
        "features.1.conv.0.1.bias",
    ]
    assert {"features.1.conv.1.weight", "features.2.conv.2.weight", "features.18.0.weight"} <= {
        *names
    }
    assert names[-2:] == ["classifier.1.weight", "classifier.1.bias"]


def test_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'resnet18'"):
        zoo.entry("resnet-18")


def test_gpt_tiny_tells_places_by_a_constant_and_has_a_head_of_its_own() -> None:
    net = zoo.entry("gpt_tiny").build()
    assert [name for name, _ in net.named_buffers()] == ["places.pe"]
    names = [name for name, _ in net.named_parameters()]
    assert names[:2] == ["embed.weight", "blocks.0.self_attn.in_proj_weight"]
    assert names[-3:] == ["norm.weight", "norm.bias", "head.weight"]
