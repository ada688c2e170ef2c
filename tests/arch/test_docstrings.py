"""What users call is explained: every parameter in its docstring, every layer in the README."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

import pytest

import armtrain as at
from armtrain import data, nn, optim, zoo
from armtrain.optim import lr_scheduler
from tests.arch import sources

MODULES = (at, nn, optim, lr_scheduler, data, zoo)
NOT_LAYERS = {"Buffer", "Loss", "Module", "ModuleList", "Parameter", "Sequential", "Tensor"}
TORCHS_METHODS = {"Tensor"}
MADE_BY_PLANNING = {"Plan"}


def callables(module: ModuleType) -> list[tuple[str, Any]]:
    """Return what users may call: functions, classes with a constructor, methods."""
    found: list[tuple[str, Any]] = []
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value):
            found.append((name, value))
        told = inspect.isclass(value) and not issubclass(value, Exception)
        if told and name not in TORCHS_METHODS:
            found += [] if name in MADE_BY_PLANNING else [(name, value)]
            members = vars(value).items()
            public = [(k, v) for k, v in members if k[0] != "_" and inspect.isfunction(v)]
            # What goes through a layer is told by the layer.
            public = [(k, v) for k, v in public if k != "forward"]
            found += [(f"{name}.{k}", v) for k, v in public]
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_every_parameter_is_explained(module: ModuleType) -> None:
    wrong = []
    for name, value in callables(module):
        known = set(re.findall(r"\w+", inspect.getdoc(value) or ""))
        for parameter in inspect.signature(value).parameters.values():
            named = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            if named and parameter.name != "self" and parameter.name not in known:
                wrong.append(f"{module.__name__}.{name}: {parameter.name}")
    assert not wrong, "\n".join(wrong)


def test_the_readme_lists_every_layer_and_loss() -> None:
    """'Conv1d/2d' stands for both, 'LSTM ... and their cells' for the cells."""
    text = sources.text(sources.Path("README.md"))
    listed = set(re.findall(r"\w+", re.sub(r"(\w+)1d/2d", r"\1 \g<1>1d \g<1>2d", text)))
    assert "and their cells" in " ".join(text.split())
    layers = {n for n in nn.__all__ if inspect.isclass(getattr(nn, n))} - NOT_LAYERS
    assert {n.removesuffix("Cell") for n in layers} <= listed
