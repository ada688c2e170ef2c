"""What the user calls a model, a loss, an optimiser: texts of the command line to objects."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from armtrain.cli.common import UsageError
from armtrain.errors import ArmtrainError

__all__ = ["make_loss", "make_optimizer", "model_from_file"]


def make_loss(text: str) -> Any:
    """Return the loss that 'cross_entropy' or 'mse' names."""
    from armtrain import nn

    losses = {"cross_entropy": nn.CrossEntropyLoss, "mse": nn.MSELoss}
    if text not in losses:
        raise UsageError(f"--loss '{text}' is unknown; possible are {', '.join(losses)}")
    return losses[text]()


def make_optimizer(text: str) -> Any:
    """Return the optimiser of a text such as 'sgd:lr=0.01,momentum=0.9'."""
    from armtrain import optim

    optimizers = {"sgd": optim.SGD, "adam": optim.Adam}
    name, _, rest = text.partition(":")
    if name not in optimizers:
        raise UsageError(f"--optimizer '{text}' is unknown; possible are {', '.join(optimizers)}")
    options: dict[str, Any] = {}
    for word in filter(None, rest.split(",")):
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--optimizer '{text}': '{word}' should be name=value, as in lr=0.01")
        options[key] = _value(text, value)
    if "beta1" in options or "beta2" in options:
        options["betas"] = (options.pop("beta1", 0.9), options.pop("beta2", 0.999))
    try:
        return optimizers[name](**options)
    except TypeError as error:
        raise UsageError(f"--optimizer '{text}': {error}") from error


def _value(text: str, value: str) -> float | bool:
    """Parse a number or a truth value."""
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        return float(value)
    except ValueError:
        raise UsageError(
            f"--optimizer '{text}': '{value}' is neither a number nor true or false"
        ) from None


def model_from_file(text: str) -> Any:
    """Return what the callable of 'file.py:callable' returns.

    Raises
    ------
    UsageError
        There is no such file or callable.
    """
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise UsageError(f"MODEL '{text}' is unknown; write zoo:NAME or file.py:callable")
    if not Path(path).is_file():
        raise UsageError(f"MODEL '{text}': there is no file {path}")
    module = _load(Path(path))
    make = getattr(module, name, None)
    if not callable(make):
        found = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise UsageError(
            f"MODEL '{text}': {path} has no callable '{name}'; it has {', '.join(found) or 'none'}"
        )
    return make()


def _load(path: Path) -> ModuleType:
    """Execute a Python file as a module; its folder can be imported from."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be loaded as a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except ArmtrainError:
        raise
    except Exception as error:
        raise UsageError(f"{path} fails: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module
