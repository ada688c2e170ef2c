"""armtrain trains neural networks inside a memory budget that is known to the byte.

>>> import armtrain as at
>>> from armtrain import nn, optim                                   # doctest: +SKIP
>>> plan = at.plan(nn.Linear(4, 2), input_shape=(4,), batch_size=8,
...                loss=nn.CrossEntropyLoss(), optimizer=optim.SGD(lr=0.1))  # doctest: +SKIP
>>> trainer = at.Trainer(plan, seed=0)                               # doctest: +SKIP

Names are loaded at their first use: a program that only trains never loads the compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from armtrain.errors import (
    ArgumentError,
    ArmtrainError,
    DataError,
    DoesNotFitError,
    EngineError,
    NonFiniteError,
    PlanError,
    ShapeError,
    StorageError,
)

if TYPE_CHECKING:
    from armtrain import nn, optim, zoo
    from armtrain.compiler import plan
    from armtrain.io.safetensors import load_file as load_weights
    from armtrain.io.safetensors import save_file as save_weights
    from armtrain.planfile.plan import Plan
    from armtrain.runtime.history import Evaluation, History
    from armtrain.runtime.trainer import Trainer

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "ArmtrainError",
    "DataError",
    "DoesNotFitError",
    "EngineError",
    "Evaluation",
    "History",
    "NonFiniteError",
    "Plan",
    "PlanError",
    "ShapeError",
    "StorageError",
    "Trainer",
    "__version__",
    "load_weights",
    "nn",
    "optim",
    "plan",
    "save_weights",
    "zoo",
]

_LAZY = {
    "Evaluation": ("armtrain.runtime.history", "Evaluation"),
    "History": ("armtrain.runtime.history", "History"),
    "Plan": ("armtrain.planfile.plan", "Plan"),
    "Trainer": ("armtrain.runtime.trainer", "Trainer"),
    "load_weights": ("armtrain.io.safetensors", "load_file"),
    "nn": ("armtrain.nn", None),
    "optim": ("armtrain.optim", None),
    "plan": ("armtrain.compiler", "plan"),
    "save_weights": ("armtrain.io.safetensors", "save_file"),
    "zoo": ("armtrain.zoo", None),
}
"""Public name -> module and name in it."""


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    try:
        module, attribute = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module 'armtrain' has no attribute '{name}'") from None
    loaded = import_module(module)
    value = loaded if attribute is None else getattr(loaded, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
