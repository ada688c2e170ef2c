"""Modules: registration, names, flags."""

from __future__ import annotations

import sys

import pytest

from armtrain import nn
from armtrain.errors import ShapeError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 2), nn.ReLU())])


def test_names_are_in_torch_order() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == [
        "conv.weight",
        "bn.weight",
        "bn.bias",
        "blocks.0.weight",
        "blocks.0.bias",
        "blocks.1.0.weight",
        "blocks.1.0.bias",
    ]
    assert [name for name, _ in net.named_buffers()] == ["bn.running_mean", "bn.running_var"]
    paths = ["", "conv", "bn", "blocks", "blocks.0", "blocks.1", "blocks.1.0", "blocks.1.1"]
    assert [name for name, _ in net.named_modules()] == paths


def test_shapes_are_torch_shapes() -> None:
    shapes = {name: p.shape for name, p in Net().named_parameters()}
    assert shapes["conv.weight"] == (4, 3, 3, 3)
    assert shapes["blocks.1.0.weight"] == (2, 4)
    assert nn.Conv2d(8, 6, (3, 5), groups=2).weight.shape == (6, 4, 3, 5)


def test_names_equal_torch_state_dict() -> None:
    torch = pytest.importorskip("torch", reason="compares with torch where it is installed")

    def build(m: object) -> object:
        block = m.Sequential(m.Conv2d(4, 4, 1), m.BatchNorm2d(4), m.Tanh())  # type: ignore[attr-defined]
        return m.Sequential(  # type: ignore[attr-defined]
            m.Conv2d(3, 4, 3),  # type: ignore[attr-defined]
            block,
            m.ModuleList([m.Linear(4, 2, bias=False), m.Dropout(0.5)]),  # type: ignore[attr-defined]
            m.BatchNorm2d(4, affine=False),  # type: ignore[attr-defined]
        )

    theirs = [
        (name, tuple(value.shape))
        for name, value in build(torch.nn).state_dict().items()  # type: ignore[attr-defined]
        if not name.endswith("num_batches_tracked")
    ]
    net = build(nn)
    assert isinstance(net, nn.Module)
    ours = {n: p.shape for n, p in (*net.named_parameters(), *net.named_buffers())}
    assert ours == dict(theirs)


def test_flags_reach_every_submodule() -> None:
    net = Net()
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    net.train()
    net.bn.eval()
    assert net.training
    assert net.conv.training
    assert not net.bn.training
    net.requires_grad_(False)
    net.blocks.requires_grad_(True)
    trained = [name for name, p in net.named_parameters() if p.requires_grad]
    assert all(name.startswith("blocks.") for name in trained)
    assert len(trained) == 4
    assert net.conv.weight.requires_grad_(True) is net.conv.weight


def test_replacing_a_layer_keeps_its_place() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    net[0] = nn.Linear(4, 4, bias=False)
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "2.weight", "2.bias"]
    net[-1] = nn.Identity()
    assert [name for name, _ in net.named_parameters()] == ["0.weight"]
    assert len(net[:2]) == 2
    with pytest.raises(TypeError, match="holds modules"):
        net.append("relu")  # type: ignore[arg-type]


def test_shared_parameter_has_one_name() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    net[1].weight = net[0].weight
    names = [name for name, _ in net.named_parameters()]
    assert names == ["0.weight", "0.bias", "1.bias"]


def test_removed_members_are_forgotten() -> None:
    net = Net()
    del net.blocks
    net.bn = None  # type: ignore[assignment]
    assert [name for name, _ in net.named_parameters()] == ["conv.weight"]


def test_forgotten_super_init_is_explained() -> None:
    class Wrong(nn.Module):
        def __init__(self) -> None:
            self.fc = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"super\(\).__init__"):
        Wrong()


def test_calling_a_layer_with_numbers_is_explained() -> None:
    with pytest.raises(ShapeError, match="layers hold no data"):
        nn.Linear(2, 2)([1.0, 2.0])


def test_repr_shows_the_tree() -> None:
    text = repr(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Sequential(nn.ReLU())))
    assert "(0): Conv2d(1, 2, kernel_size=(3, 3)" in text
    assert "    (0): ReLU()" in text


def test_repr_shows_arguments_above_the_tree() -> None:
    class Scaled(nn.Sequential):
        def extra_repr(self) -> str:
            return "scale=3"

    assert repr(Scaled(nn.ReLU())) == "Scaled(\n  scale=3\n  (0): ReLU()\n)"
    assert repr(Scaled()) == "Scaled(scale=3)"


def test_modules_nested_too_deeply_are_refused() -> None:
    net: nn.Module = nn.Linear(2, 2)
    for _ in range(sys.getrecursionlimit()):
        net = nn.Sequential(net)
    with pytest.raises(ShapeError, match=r"nest deeper than .* one nn\.Sequential"):
        nn.trace(net, (2,), 1)


def test_a_forward_that_calls_itself_is_refused() -> None:
    class Endless(nn.Module):
        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return self(x)

    with pytest.raises(ShapeError, match="below Endless nest deeper than"):
        nn.trace(Endless(), (2,), 1)
