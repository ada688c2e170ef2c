"""Values of the wrong kind: every public function refuses them itself, with a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.nn import functional

X = np.zeros((2, 4), np.float32)


class Call(nn.Module):
    """A network that calls a function on its input first."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.function = function

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return the layer's value."""
        self.function(x)
        return self.layer(x)  # type: ignore[no-any-return]


def a_plan(net: nn.Module | None = None, **changes: Any) -> at.Plan:
    """Plan a classifier of 4 features."""
    options: dict[str, Any] = {
        "input_shape": (4,),
        "batch_size": 2,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(lr=0.1),
        "threads": 1,
    }
    return at.plan(net or nn.Linear(4, 3), **(options | changes))


def state(**changes: Any) -> dict[Any, Any]:
    """Return a state for the plan above."""
    return {"weight": np.zeros((3, 4)), "bias": np.zeros(3)} | changes


INIT = nn.Linear(4, 3).weight.init
PATHS = [None, 3, b"f", "a\0b"]
PATH_TAKERS: dict[str, Callable[[Any], object]] = {
    "Plan.load": at.Plan.load,
    "Plan.save": lambda path: a_plan().save(path),
    "load_weights": at.load_weights,
    "save_weights": lambda path: at.save_weights({"a": X}, path),
    "Trainer": at.Trainer,
    "Trainer.save": lambda path: at.Trainer(a_plan()).save(path),
    "Trainer.load": lambda path: at.Trainer(a_plan()).load(path),
}
CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "swapped": (lambda: at.save_weights("w", {"a": X}), "the path comes second"),  # type: ignore[arg-type]
    "tensor None": (lambda: at.save_weights({None: X, 1: X}, "w"), "is text.*got None"),  # type: ignore[dict-item]
    "tensor 1": (lambda: at.save_weights({1: X}, "w"), "name of a tensor is text.* got 1"),  # type: ignore[dict-item]
    "surrogate": (lambda: at.save_weights({"\udcff": X}, "w"), "without lone surrogates"),
    "plan None": (lambda: at.Plan.from_bytes(None), r"bytes, got NoneType; Plan.load\(path\)"),  # type: ignore[arg-type]
    "plan text": (lambda: at.Plan.from_bytes("abc"), "content is bytes, got str"),  # type: ignore[arg-type]
    "level NUL": (lambda: at.Trainer(a_plan(), kernel_level="c\0"), "holds a NUL"),
    "level": (lambda: at.Trainer(a_plan(), kernel_level="\udcff"), "no name of a level has"),
    "optimizer": (lambda: optim.parse_optimizer(optim.SGD()), "got SGD; armtrain.plan takes"),  # type: ignore[arg-type]
    "state 3": (lambda: at.Trainer(a_plan()).load_state_dict({3: X}), "of type str, got 3"),  # type: ignore[dict-item]
    "ragged": (
        lambda: at.Trainer(a_plan()).load_state_dict(state(weight=[[1], [1, 2]])),
        "'weight' is no array of one shape",
    ),
    "input_shape": (lambda: a_plan(input_shape=np.array(3)), "input_shape needs 1 to 5 integers"),
    "trace": (lambda: nn.trace(nn.Linear(4, 2), np.array(3), 2), "input_shape needs"),  # type: ignore[arg-type]
    "size 9": (lambda: a_plan(Call(lambda x: x.size(9))), r"size\(9\) .*has dimensions 0 to 1"),
    "size a": (lambda: a_plan(Call(lambda x: x.size("a"))), r"size\('a'\)"),
    "reshape": (lambda: a_plan(Call(lambda x: x.reshape(2, None))), "sizes are integers"),
    "flatten": (
        lambda: a_plan(Call(lambda x: functional.flatten(x, 1, None))),  # type: ignore[arg-type]
        "flatten: dimension None of a value",
    ),
    "relu None": (lambda: functional.relu(None), "functional.relu was called with NoneType"),  # type: ignore[arg-type]
    "tanh array": (lambda: functional.tanh(X), "called with ndarray: .* use NumPy's on arrays"),  # type: ignore[arg-type]
    "flatten list": (lambda: functional.flatten([1]), "called with list"),  # type: ignore[arg-type]
    "pool": (lambda: functional.max_pool2d(X, 2), "max_pool2d was called with ndarray"),  # type: ignore[arg-type]
    "zoo": (lambda: at.zoo.entry(3), "no model 3 in the zoo; available are"),  # type: ignore[arg-type]
    "apply": (lambda: nn.Linear(4, 2).apply(3), "apply needs a function of a module, got 3"),  # type: ignore[arg-type]
    "list": (lambda: nn.ModuleList(None), "takes a list of modules, got NoneType"),  # type: ignore[arg-type]
    "init": (lambda: nn.Parameter((2,), "abc"), "init needs an initialiser.* got 'abc'"),  # type: ignore[arg-type]
    "buffer": (lambda: nn.Buffer((2,), None), "Buffer: init needs an initialiser"),  # type: ignore[arg-type]
    "parameter": (lambda: nn.Linear(4, 2).register_parameter("w", 3), "'w' and int"),  # type: ignore[arg-type]
    "register": (lambda: nn.Linear(4, 2).register_buffer("w", "abc"), "Buffer or None .* str"),  # type: ignore[arg-type]
    "module": (lambda: nn.Linear(4, 2).add_module("w", {}), "Module or None .* dict"),  # type: ignore[arg-type]
    "name": (lambda: nn.Linear(4, 2).add_module(3, nn.ReLU()), "got 3 and ReLU"),  # type: ignore[arg-type]
}
GROUPS = [{"params": "weight"}, "weight", [None], [3], True, False, 0, "", {}, [{3: 1}]]


@pytest.mark.parametrize("taker", PATH_TAKERS)
@pytest.mark.parametrize("path", PATHS)
def test_paths(taker: str, path: object) -> None:
    with pytest.raises(at.ArgumentError, match=r"a path|holds a NUL character"):
        PATH_TAKERS[taker](path)


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    call, message = CALLS[name]
    with pytest.raises(at.ArmtrainError, match=message):
        call()


@pytest.mark.parametrize("groups", GROUPS, ids=repr)
def test_parameter_groups(groups: Any) -> None:
    with pytest.raises(at.ArgumentError, match=r"param_groups needs a list of dicts, .*got"):
        a_plan(param_groups=groups)


def test_other_kinds_that_mean_the_same_are_taken() -> None:
    plan = a_plan(param_groups=[])
    content = plan.to_bytes()
    for same in (bytearray(content), memoryview(content)):
        assert at.Plan.from_bytes(same).to_bytes() == content  # type: ignore[arg-type]
    assert nn.Parameter(np.array(3), INIT).shape == (3,)  # type: ignore[arg-type]
    layer = nn.Linear(4, 2)
    layer.register_parameter("extra", None)
    assert layer.extra is None
