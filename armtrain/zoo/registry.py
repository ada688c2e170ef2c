"""The list of models by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType

from armtrain import nn, optim
from armtrain.errors import ArgumentError
from armtrain.zoo import components
from armtrain.zoo.gpt import GptTiny
from armtrain.zoo.lenet import DigitsCnn, LeNet, LeNet5
from armtrain.zoo.mlp import Autoencoder, Mlp
from armtrain.zoo.mobilenet import MobileNetV2
from armtrain.zoo.ratings import ProductRatings
from armtrain.zoo.recurrent import Lstm
from armtrain.zoo.resnet import ResNet18, ResNet18Imagenet
from armtrain.zoo.vgg import Vgg16

__all__ = ["ENTRIES", "ZooEntry", "entry", "names"]

_PLAIN_SGD = partial(optim.SGD, lr=0.01)


@dataclass(frozen=True)
class ZooEntry:
    """One model.

    Attributes
    ----------
    name : str
    build : callable
        Returns a new network.
    input_shape : tuple of int
        Default shape of one sample.
    output_shape : tuple of int
        Of one sample; (classes,) where the loss has classes.
    summary : str
    loss, optimizer : callable
        Return the default loss and optimiser.
    """

    name: str
    build: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    summary: str
    loss: Callable[[], nn.Loss] = nn.CrossEntropyLoss
    optimizer: Callable[[], optim.Optimizer] = _PLAIN_SGD


_IMAGE, _PHOTO = (3, 32, 32), (3, 224, 224)
_mse = partial(ZooEntry, loss=nn.MSELoss)
_LIST = (
    _mse("autoencoder", Autoencoder, (784,), (784,), "784-128-32-128-784, its input is its target"),
    _mse("conv_s2", components.conv_s2, _PHOTO, (3, 112, 112), "one convolution of stride 2"),
    ZooEntry("digits_cnn", DigitsCnn, (1, 8, 8), (10,), "two 3x3 convolutions for 8x8 digits"),
    ZooEntry("gpt_tiny", GptTiny, (128,), (256, 128), "a causal transformer of 128 bytes"),
    ZooEntry("lenet", LeNet, (1, 28, 28), (10,), "two 5x5 convolutions and one linear layer"),
    ZooEntry("lenet5", LeNet5, (1, 28, 28), (10,), "LeNet-5 with ReLU and average pooling"),
    _mse("linear_150528", components.linear_150528, (150528,), (300,), "one large layer"),
    ZooEntry("lstm", Lstm, (20, 64), (10,), "LSTM of 256 units over 20 steps of 64 values"),
    _mse("lstm_150528", components.lstm_150528, (1, 150528), (10,), "an LSTM of one step"),
    ZooEntry("mlp", Mlp, (1, 28, 28), (10,), "784-512-512-10"),
    ZooEntry("mobilenet_v2", MobileNetV2, (3, 96, 96), (10,), "MobileNetV2 of width 1"),
    _mse("model_a_conv", components.model_a_conv, _PHOTO, (3, 28, 28), "three convolutions"),
    _mse("model_a_linear", components.model_a_linear, (784,), (100,), "784-4096-2048-100"),
    _mse("model_c_conv", components.model_c_conv, _PHOTO, (37632,), "convolution, ReLU, flatten"),
    _mse("model_c_linear", components.model_c_linear, (150528,), (10,), "150528-10, ReLU, flatten"),
    _mse("product_ratings", ProductRatings, (2,), (1,), "two embeddings and 10-128-32-1"),
    ZooEntry("resnet18", ResNet18, _IMAGE, (10,), "ResNet-18 with a 3x3 stem"),
    ZooEntry("resnet18_imagenet", ResNet18Imagenet, _PHOTO, (1000,), "ResNet-18 of torchvision"),
    ZooEntry("vgg16", Vgg16, _IMAGE, (10,), "VGG16 without batch norm"),
    ZooEntry("vgg16_bn", partial(Vgg16, True), _IMAGE, (10,), "VGG16 with batch norm"),
)

ENTRIES: Mapping[str, ZooEntry] = MappingProxyType({e.name: e for e in _LIST})
"""Models by name, sorted."""


def names() -> tuple[str, ...]:
    """Return the names of all models."""
    return tuple(ENTRIES)


def entry(name: str) -> ZooEntry:
    """Return the model called `name`.

    Raises
    ------
    ValueError
        Unknown name, with the similar ones.
    """
    if not isinstance(name, str) or name not in ENTRIES:
        close = get_close_matches(f"{name:.80}" if isinstance(name, str) else "", ENTRIES, n=1)
        hint = f"did you mean '{close[0]}'? Available" if close else "available"
        raise ArgumentError(f"no model {name!r:.80} in the zoo; {hint} are {', '.join(ENTRIES)}")
    return ENTRIES[name]
