"""Optimisers with the names, arguments and defaults of `torch.optim`, without `params`."""

from typing import TYPE_CHECKING

from armtrain.errors import unknown_name
from armtrain.optim import lr_scheduler
from armtrain.optim.adagrad import Adagrad
from armtrain.optim.adam import Adam, AdamW
from armtrain.optim.base import Optimizer
from armtrain.optim.parse import parse_optimizer
from armtrain.optim.rmsprop import RMSprop
from armtrain.optim.sgd import SGD

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Optimizer",
    "RMSprop",
    "lr_scheduler",
    "parse_optimizer",
]

if not TYPE_CHECKING:  # type checkers know the names, and would take every other one for one

    def __getattr__(name: str) -> None:
        """Say what there is instead of a name that torch has and armtrain lacks."""
        raise unknown_name("armtrain.optim", name, __all__)
