"""The networks that are timed, the same layers for every framework.

The zoo mirrors torch's layers, so that its modules run with `torch.nn` in place of `armtrain.nn`:
one definition serves both, and neither can lose a layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WORKLOADS", "Batch", "Workload", "make_batch", "make_net"]

_IMPORT = "from armtrain import nn\n"


@dataclass(frozen=True)
class Workload:
    """One network and its batch.

    Attributes
    ----------
    key, title : str
    module, name : str
        Module of the zoo and class in it.
    shape : tuple of int
        Of one sample.
    batch : int
    arguments : tuple
        Of the class.
    classes : int
    trained : str
        Patterns of the parameters that are trained; '*' are all.
    tokens : int
        Inputs and targets are that many different whole numbers, a target for each place; or 0.
    """

    key: str
    title: str
    module: str
    name: str
    shape: tuple[int, ...]
    batch: int
    arguments: tuple[Any, ...] = ()
    classes: int = 10
    trained: str = "*"
    tokens: int = 0


_SMALL, _PHOTO = (3, 32, 32), (3, 224, 224)
_LIST = (
    Workload("A", "LeNet-5", "lenet", "LeNet5", (1, 28, 28), 32),
    Workload("B", "MLP 784-512-512-10", "mlp", "Mlp", (1, 28, 28), 32),
    Workload("Cn", "VGG16 32x32", "vgg", "Vgg16", _SMALL, 32),
    Workload("C", "VGG16-BN 32x32", "vgg", "Vgg16", _SMALL, 32, (True,)),
    Workload("D32", "ResNet-18 32x32", "resnet", "ResNet18", _SMALL, 32),
    Workload("D128", "ResNet-18 32x32, batch 128", "resnet", "ResNet18", _SMALL, 128),
    Workload(
        *("E", "ResNet-18 224x224, last layer only", "resnet", "ResNet18Imagenet", _PHOTO, 32),
        trained="fc.*",
    ),
    Workload("F", "MobileNetV2 96x96", "mobilenet", "MobileNetV2", (3, 96, 96), 8),
    Workload("G", "LSTM 256, 20 steps", "recurrent", "Lstm", (20, 64), 32),
    Workload("H", "GPT, 4 layers of 128", "gpt", "GptTiny", (128,), 8, (), 256, "*", 256),
    Workload("tiny", "CNN 8x8", "lenet", "DigitsCnn", (1, 8, 8), 4),
)
WORKLOADS = {w.key: w for w in _LIST}
"""By key; `tiny` is for tests."""


@dataclass(frozen=True)
class Batch:
    """`x` float32 (n, ...) and labels `y` of one workload: int32 (n,), of places float32 (n, L)."""

    x: NDArray[np.float32]
    y: NDArray[Any]


def make_batch(workload: Workload) -> Batch:
    """Return random samples, the same in every run."""
    rng = np.random.default_rng(0)
    shape = (workload.batch, *workload.shape)
    if workload.tokens:
        x = rng.integers(0, workload.tokens, shape).astype(np.float32)
        return Batch(x, rng.integers(0, workload.classes, shape).astype(np.float32))
    y = rng.integers(0, workload.classes, workload.batch).astype(np.int32)
    return Batch(rng.random(shape, np.float32), y)


def make_net(workload: Workload, layers: Any) -> Any:
    """Return the network made of the classes of `layers`; without dropout, which is random.

    Parameters
    ----------
    workload : Workload
    layers : module
        `armtrain.nn` or `torch_layers()`.
    """
    net = _class_of(workload, layers)(*workload.arguments)
    for module in net.modules():
        if isinstance(module, layers.Dropout):
            module.p = 0.0
    if workload.trained != "*":
        net.fc = layers.Linear(512, workload.classes)
        net.requires_grad_(False)
        net.eval()
        net.fc.requires_grad_(True)
    return net


def _class_of(workload: Workload, layers: Any) -> Callable[..., Any]:
    """Return the zoo's class, its module executed with `layers` as `nn`."""
    spec = find_spec(f"armtrain.zoo.{workload.module}")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    if _IMPORT not in source:
        raise ValueError(f"{spec.origin} does not import its layers by '{_IMPORT.strip()}'")
    names: dict[str, Any] = {"nn": layers, "__name__": spec.name}
    exec(compile(source.replace(_IMPORT, "\n"), spec.origin, "exec"), names)
    made: Callable[..., Any] = names[workload.name]
    return made


def torch_layers() -> Any:
    """Return `torch.nn` with what the zoo uses and torch has not.

    torch's encoder layer takes `is_causal` as a hint about a mask, which it needs all the same.
    """
    import torch
    from torch import nn

    class Layers:
        """Names of `torch.nn`."""

        def __getattr__(self, name: str) -> Any:
            return getattr(nn, name)

        class PositionalEncoding(nn.Module):
            """Sines and cosines of places."""

            def __init__(self, width: int, length: int) -> None:
                super().__init__()
                rates = 10000.0 ** (-torch.arange(0, width, 2) / width)
                angles = torch.arange(length)[:, None] * rates
                pairs = torch.stack((angles.sin(), angles.cos()), -1)
                self.register_buffer("pe", pairs.reshape(length, width))

            def forward(self, x: Any) -> Any:
                return x + self.pe

        class TransformerEncoderLayer(nn.TransformerEncoderLayer):
            """With the mask that goes with the hint."""

            def forward(self, x: Any, is_causal: bool) -> Any:
                mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
                return super().forward(x, mask, is_causal=is_causal)

    return Layers()
