"""Optimisers with the names, arguments and defaults of `torch.optim`, without `params`."""

from armtrain.optim.adam import Adam
from armtrain.optim.base import Optimizer
from armtrain.optim.parse import parse_optimizer
from armtrain.optim.sgd import SGD

__all__ = ["SGD", "Adam", "Optimizer", "parse_optimizer"]
