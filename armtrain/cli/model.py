"""What the user calls a model, a loss, an optimiser: texts of the command line to objects."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from armtrain.cli.common import UsageError
from armtrain.errors import ArmtrainError

if TYPE_CHECKING:
    from armtrain.nn import Loss
    from armtrain.optim import Optimizer
    from armtrain.zoo import ZooEntry

__all__ = ["make_loss", "make_optimizer", "model_from_file", "zoo_entry"]


def make_loss(text: str) -> Loss:
    """Return the loss that 'cross_entropy' or 'mse' names."""
    from armtrain.nn import parse_loss

    try:
        return parse_loss(text)
    except ValueError as error:
        raise UsageError(f"--loss: {error}") from error


def make_optimizer(text: str) -> Optimizer:
    """Return the optimiser of a text such as 'sgd:lr=0.01,momentum=0.9'."""
    from armtrain.optim import parse_optimizer

    try:
        return parse_optimizer(text)
    except ValueError as error:
        raise UsageError(f"--optimizer: {error}") from error


def zoo_entry(name: str) -> ZooEntry:
    """Return the zoo's model called `name`."""
    from armtrain.zoo import entry

    try:
        return entry(name)
    except ValueError as error:
        raise UsageError(f"MODEL: {error}") from error


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
        found = sorted(n for n, v in vars(module).items() if callable(v) and n[0] != "_")
        raise UsageError(
            f"MODEL '{text}': {path} has no callable '{name}'; it has {', '.join(found) or 'none'}"
        )
    try:
        return make()
    except ArmtrainError:
        raise
    except Exception as error:
        raise UsageError(
            f"MODEL '{text}': {name}() fails: {type(error).__name__}: {error}"
        ) from error


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
