"""Every public layer and loss has stored values and gradients of PyTorch's."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from armtrain import nn
from tests.golden import cosine_cases, embedding
from tests.golden.activations import ACTIVATIONS, make_activation
from tests.golden.attention import ATTENTION, make_attention
from tests.golden.layer_cases import LAYERS
from tests.golden.loss_cases import LOSSES

WITHOUT = {
    "Module": "what all layers are",
    "Loss": "what all losses are",
    "ModuleList": "computes nothing of its own",
    "PositionalEncoding": "PyTorch has none; tests/unit/nn/test_positional.py has its formula",
}
"""Name -> why nothing is stored."""
ELSEWHERE = {"CosineEmbeddingLoss"}
"""Of tests/golden/cosine.json, whose cases are margins."""


def stored() -> set[str]:
    """Return the names of the classes in all tables of stored values and gradients."""
    networks: Iterable[nn.Module] = (
        *(case.make(nn) for case in LAYERS.values()),
        *(make_activation(nn, name) for name in ACTIVATIONS),
        *(make_attention(nn, name) for name in ATTENTION),
        *(case.build(nn) for case in embedding.CASES.values()),
        cosine_cases.cosines(nn),
    )
    layers = {type(layer).__name__ for network in networks for layer in network.modules()}
    return layers | {case.loss for case in LOSSES.values()} | ELSEWHERE


def test_every_public_layer_and_loss_is_stored_or_said_why_not() -> None:
    public = {
        name
        for name in nn.__all__
        if inspect.isclass(made := getattr(nn, name)) and issubclass(made, nn.Module | nn.Loss)
    }
    assert public - stored() == WITHOUT.keys()


def test_each_mode_of_batch_normalisation_is_stored() -> None:
    """With the batch's statistics or running ones, with trained parameters or without."""
    made = {name: case.make(nn) for name, case in LAYERS.items()}
    norms = {name: x for name, x in made.items() if isinstance(x, nn.BatchNorm1d | nn.BatchNorm2d)}
    found = {(x.training, any(p.requires_grad for p in x.parameters())) for x in norms.values()}
    assert found == {(True, True), (True, False), (False, True), (False, False)}
