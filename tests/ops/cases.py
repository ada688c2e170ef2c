"""The one table of small networks that together use every operation in every way it can be used.

Gradient checks, engine against reference, threads, levels, poison and benchmarks all run over it:
adding a case adds it to every mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import armtrain as at
from armtrain import nn, optim
from tests.golden.activations import ACTIVATIONS, make_activation
from tests.ops.arithmetic_cases import ARITHMETIC, Pairs
from tests.ops.attention_cases import ATTENTION
from tests.ops.case import CLASSES, Case, Part
from tests.ops.embedding_cases import EMBEDDINGS
from tests.ops.image_cases import IMAGES, image
from tests.ops.movement_cases import MOVEMENT
from tests.ops.norm_cases import SAMPLE_NORMS
from tests.ops.places_cases import PLACES
from tests.ops.recurrent_cases import RECURRENT

__all__ = ["CASES", "Case", "batch", "make_plan"]


class Residual(nn.Module):
    """Branches that meet in additions; x has three consumers."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 1)
        self.relu = nn.ReLU()
        self.tanh = nn.Tanh()

    def forward(self, x: Any) -> Any:
        """Return a sum of three paths."""
        y = self.tanh(self.bn1(self.conv1(x)))
        return self.relu(y + self.conv2(x)) + x


class Fork(nn.Module):
    """A value that is used by two linear layers and once more directly."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 7)
        self.left = nn.Linear(7, 7)
        self.right = nn.Linear(7, 7)
        self.last = nn.Linear(7, CLASSES)
        self.tanh = nn.Tanh()

    def forward(self, x: Any) -> Any:
        """Return logits."""
        x = self.tanh(self.first(x))
        return self.last(self.left(x) + x + self.tanh(self.right(x)))


def vector(*layers: Callable[[], Any], **more: Any) -> Case:
    """Return a case of layers on 6 features."""
    return Case(lambda: nn.Sequential(*(layer() for layer in layers)), (6,), **more)


def two_linears(*, part: bool = False, **more: Any) -> Case:
    """Return a case of two linear layers and tanh; `part`: the loss reads a part of the last."""
    last = [lambda: nn.Linear(9, CLASSES + 2), Part] if part else [lambda: nn.Linear(9, CLASSES)]
    return vector(lambda: nn.Linear(6, 9), nn.Tanh, *last, **more)


def regression(loss: Callable[[], Any], **more: Any) -> Case:
    """Return a case of two linear layers and a loss with targets like the output."""
    return two_linears(loss=loss, target_shape=(CLASSES,), **more)


def unit(normal: Any) -> Any:
    """Return numbers in [0, 1], both ends among them."""
    return np.clip(normal + 0.5, 0.0, 1.0)


def softmax(normal: Any) -> Any:
    """Return probabilities."""
    powers = np.exp(normal)
    return powers / powers.sum(axis=-1, keepdims=True)


def sign(normal: Any) -> Any:
    """Return 1 and -1."""
    return np.where(normal > 0.0, 1.0, -1.0)


def sgd(**options: Any) -> Callable[[], Any]:
    """Return a maker of SGD."""
    return lambda: optim.SGD(lr=0.1, **options)


def adam(**options: Any) -> Callable[[], Any]:
    """Return a maker of Adam."""
    return lambda: optim.Adam(lr=0.01, **options)


def adamw(**options: Any) -> Callable[[], Any]:
    """Return a maker of AdamW."""
    return lambda: optim.AdamW(lr=0.01, **options)


def rmsprop(**options: Any) -> Callable[[], Any]:
    """Return a maker of RMSprop."""
    return lambda: optim.RMSprop(**options)


def adagrad(**options: Any) -> Callable[[], Any]:
    """Return a maker of Adagrad."""
    return lambda: optim.Adagrad(**options)


_CONVOLUTIONS = {
    "conv_3x3": image(120, lambda: [nn.Conv2d(4, 6, 3)]),
    "conv_3x3_padded_no_bias": image(252, lambda: [nn.Conv2d(4, 6, 3, padding=1, bias=False)]),
    "conv_1x1": image(252, lambda: [nn.Conv2d(4, 6, 1)]),
    "conv_1x1_stride": image(72, lambda: [nn.Conv2d(4, 6, 1, stride=2)]),
    "conv_5x5": image(252, lambda: [nn.Conv2d(4, 6, 5, padding=2)]),
    "conv_stride": image(72, lambda: [nn.Conv2d(4, 6, 3, stride=2, padding=1)], part=True),
    "conv_uneven": image(120, lambda: [nn.Conv2d(4, 6, (3, 2), (2, 1), (0, 2))]),
    "conv_dilation": image(120, lambda: [nn.Conv2d(4, 6, 3, padding=1, dilation=2)]),
    "conv_groups": image(120, lambda: [nn.Conv2d(4, 6, 3, groups=2)]),
    "conv_depthwise": image(336, lambda: [nn.Conv2d(4, 8, 3, padding=1, groups=4)]),
    "conv_many_channels": image(
        30, lambda: [nn.Conv2d(4, 33, 3), nn.Tanh(), nn.Conv2d(33, 5, 3, stride=2, padding=1)]
    ),
    "conv_first": Case(
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(48, CLASSES)), (3, 5, 6)
    ),
}
_POOLS = {
    "maxpool": image(36, lambda: [nn.MaxPool2d(2)]),
    "maxpool_overlapping": image(48, lambda: [nn.MaxPool2d(3, stride=2, padding=1)]),
    "maxpool_dilation": image(80, lambda: [nn.MaxPool2d(2, stride=1, dilation=2)]),
    "avgpool": image(36, lambda: [nn.AvgPool2d(2)]),
    "avgpool_overlapping": image(48, lambda: [nn.AvgPool2d(3, stride=2, padding=1)], part=True),
    "avgpool_without_padding": image(
        48, lambda: [nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False)]
    ),
    "avgpool_all": image(4, lambda: [nn.AvgPool2d((6, 7))]),
}
_NORMS = {
    "batchnorm": image(168, lambda: [nn.BatchNorm2d(4), nn.ReLU()]),
    "batchnorm_options": image(168, lambda: [nn.BatchNorm2d(4, eps=1e-3, momentum=0.3)], part=True),
    "batchnorm_not_affine": image(168, lambda: [nn.BatchNorm2d(4, affine=False)]),
    "batchnorm_without_running": image(168, lambda: [nn.BatchNorm2d(4, track_running_stats=False)]),
    "batchnorm_one_place": image(4, lambda: [nn.AvgPool2d((6, 7)), nn.BatchNorm2d(4)], smallest=2),
    "batchnorm_frozen_scale": image(
        168, lambda: [nn.BatchNorm2d(4)], frozen=("2.weight", "2.bias")
    ),
    "batchnorm_eval": image(168, lambda: [nn.BatchNorm2d(4).eval(), nn.Tanh()], part=True),
    "batchnorm_eval_frozen": image(
        168, lambda: [nn.BatchNorm2d(4).eval(), nn.Tanh()], frozen=("2.weight", "2.bias")
    ),
}


def activated(name: str) -> Case:
    """Return a case of one activation after a convolution and on flattened features."""

    def layers() -> list[Any]:
        first, second = make_activation(nn, name), make_activation(nn, name)
        return [nn.Conv2d(4, 4, 1), first, nn.Flatten(), Part(), second]

    return image(166, layers)


_ACTIVATIONS = {name: activated(name) for name in ACTIVATIONS}
_SOFTMAX = {
    "softmax": image(168, lambda: [nn.Softmax(1), nn.Conv2d(4, 4, 1), nn.Tanh(), nn.Softmax(2)]),
    "softmax_width": image(168, lambda: [nn.Softmax(-1), nn.Flatten(), nn.Softmax()], part=True),
    "log_softmax": image(168, lambda: [nn.LogSoftmax(), nn.Tanh(), nn.LogSoftmax(-2)], part=True),
    "log_softmax_width": image(168, lambda: [nn.LogSoftmax(3), nn.Flatten(), nn.LogSoftmax(1)]),
    "softmax_sequence": Case(
        lambda: nn.Sequential(
            *(nn.Conv1d(2, 3, 2), nn.Softmax(1), nn.Conv1d(3, 3, 1), nn.Tanh(), nn.LogSoftmax(-1)),
            *(nn.Flatten(), nn.Linear(18, CLASSES)),
        ),
        (2, 7),
    ),
    "log_softmax_nll": vector(*(lambda: nn.Linear(6, CLASSES), nn.LogSoftmax), loss=nn.NLLLoss),
}
_OTHERS = {
    "relu": image(168, lambda: [nn.ReLU(), nn.Conv2d(4, 4, 1), nn.ReLU()], part=True),
    "tanh": image(168, lambda: [nn.Conv2d(4, 4, 1), nn.Tanh()]),
    "dropout": image(
        168, lambda: [nn.Dropout(0.4), nn.Conv2d(4, 4, 1), nn.Dropout(0.2)], part=True
    ),
    "flatten_then_pointwise": Case(
        lambda: nn.Sequential(
            *(nn.Conv2d(2, 4, 1), nn.Flatten(), nn.Tanh(), nn.Dropout(0.3)),
            *(nn.Linear(168, 8), nn.ReLU(), nn.Linear(8, CLASSES)),
        ),
        (2, 6, 7),
    ),
    "flatten_to_classes": Case(  # the loss reads features in torch's order
        lambda: nn.Sequential(nn.Conv2d(2, 3, (5, 6)), nn.Tanh(), nn.Flatten()), (2, 6, 7)
    ),
    "residual": image(168, lambda: [Residual(4), Residual(4)]),
    "fork": Case(Fork, (6,)),
    "linear_no_bias": vector(
        lambda: nn.Linear(6, 9, bias=False), nn.Tanh, lambda: nn.Linear(9, CLASSES, bias=False)
    ),
    "linear_wide": vector(
        lambda: nn.Linear(6, 67),
        nn.Tanh,
        lambda: nn.Linear(67, 35),
        nn.Tanh,
        lambda: nn.Linear(35, CLASSES),
        batch_size=9,
    ),
    "mse": two_linears(target_shape=(CLASSES,), part=True),
    "mse_image": Case(
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 3, 3)),
        (2, 6, 7),
        target_shape=(3, 4, 5),
    ),
    "mse_flat_image": Case(
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten()),
        (2, 6, 7),
        target_shape=(80,),
    ),
    "one_sample": two_linears(batch_size=1),
}
_WEIGHTS = (0.5, 2.0, 1.0, 0.0, 3.0)
_LOSSES = {
    "weighted": two_linears(loss=lambda: nn.CrossEntropyLoss(_WEIGHTS), batch_size=7),
    "smoothed": two_linears(loss=lambda: nn.CrossEntropyLoss(label_smoothing=0.2), part=True),
    "ignored": two_linears(
        loss=lambda: nn.CrossEntropyLoss(ignore_index=1), batch_size=7, smallest=6
    ),
    "weighted_smoothed": two_linears(
        loss=lambda: nn.CrossEntropyLoss(_WEIGHTS, ignore_index=1, label_smoothing=0.3),
        batch_size=7,
        smallest=6,
    ),
    "nll": two_linears(loss=lambda: nn.NLLLoss(), part=True),
    "nll_weighted": two_linears(
        loss=lambda: nn.NLLLoss(_WEIGHTS, ignore_index=1), batch_size=7, smallest=6
    ),
    "probabilities": regression(
        lambda: nn.CrossEntropyLoss(probabilities=True), targets=softmax, part=True
    ),
    "probabilities_weighted_smoothed": regression(
        lambda: nn.CrossEntropyLoss(_WEIGHTS, label_smoothing=0.3, probabilities=True),
        targets=unit,
    ),
    "probabilities_of_an_image": Case(  # targets in the order of the arena
        lambda: nn.Sequential(nn.Conv2d(2, 3, (5, 6)), nn.Tanh(), nn.Flatten()),
        (2, 6, 7),
        target_shape=(12,),
        loss=lambda: nn.CrossEntropyLoss(probabilities=True),
        targets=softmax,
        frozen=("0.bias",),
    ),
    "bce": regression(lambda: nn.BCEWithLogitsLoss(), targets=unit, part=True),
    "bce_weighted": regression(lambda: nn.BCEWithLogitsLoss(pos_weight=_WEIGHTS), targets=unit),
    "bce_image": Case(
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 3, 3)),
        (2, 6, 7),
        target_shape=(3, 4, 5),
        loss=lambda: nn.BCEWithLogitsLoss(pos_weight=2.5),
        targets=lambda normal: normal > 0.0,
    ),
    "bce_flat_image": Case(  # weights in torch's order of features
        lambda: nn.Sequential(nn.Conv2d(2, 3, (5, 6)), nn.Tanh(), nn.Flatten()),
        (2, 6, 7),
        target_shape=(12,),
        loss=lambda: nn.BCEWithLogitsLoss(pos_weight=range(12)),
        targets=unit,
    ),
    "cosine_embedding": Case(
        Pairs,
        (2, 6),
        (1,),
        loss=lambda: nn.CosineEmbeddingLoss(0.1),
        targets=sign,
        batch_size=5,
        smallest=3,
    ),
    "l1": regression(lambda: nn.L1Loss()),
    "smooth_l1": regression(lambda: nn.SmoothL1Loss(beta=0.7)),
    "smooth_l1_zero": regression(lambda: nn.SmoothL1Loss(beta=0.0)),
    "huber": regression(lambda: nn.HuberLoss(delta=0.4), part=True),
    "kl_div": regression(lambda: nn.KLDivLoss(), targets=softmax, part=True),
    "kl_div_batchmean": regression(lambda: nn.KLDivLoss(reduction="batchmean"), targets=softmax),
    "kl_div_log_target": regression(
        lambda: nn.KLDivLoss(log_target=True), targets=lambda normal: np.log(softmax(normal))
    ),
    "kl_div_image": Case(
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 3, 3)),
        (2, 6, 7),
        target_shape=(3, 4, 5),
        loss=lambda: nn.KLDivLoss(reduction="batchmean", log_target=True),
    ),
}
_TRAINING = {
    "sgd_momentum": two_linears(optimizer=sgd(momentum=0.9)),
    "sgd_dampening": two_linears(optimizer=sgd(momentum=0.9, dampening=0.3)),
    "sgd_nesterov": two_linears(optimizer=sgd(momentum=0.9, nesterov=True)),
    "sgd_decay": two_linears(optimizer=sgd(weight_decay=0.1)),
    "sgd_everything": two_linears(
        optimizer=sgd(momentum=0.9, nesterov=True, weight_decay=0.1), clip_norm=0.1
    ),
    "adam": two_linears(optimizer=adam()),
    "adam_options": two_linears(optimizer=adam(betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1)),
    "adam_clipped": two_linears(optimizer=adam(), clip_norm=0.1),
    "adamw": two_linears(optimizer=adamw()),
    "adamw_options": two_linears(optimizer=adamw(betas=(0.8, 0.95), weight_decay=3.0)),
    "adamw_clipped": two_linears(optimizer=adamw(), clip_norm=0.1),
    "rmsprop": two_linears(optimizer=rmsprop()),
    "rmsprop_momentum": two_linears(optimizer=rmsprop(momentum=0.9, weight_decay=0.1)),
    "rmsprop_centered": two_linears(optimizer=rmsprop(centered=True, alpha=0.8)),
    "rmsprop_everything": two_linears(
        optimizer=rmsprop(centered=True, momentum=0.9, weight_decay=0.1), clip_norm=0.1
    ),
    "adagrad": two_linears(optimizer=adagrad()),
    "adagrad_options": two_linears(
        optimizer=adagrad(lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.2),
        clip_norm=0.1,
    ),
    "clipped": image(168, lambda: [Residual(4)], clip_norm=0.05, optimizer=sgd(momentum=0.9)),
    "clipped_values": image(
        168, lambda: [Residual(4)], clip_value=0.01, optimizer=sgd(momentum=0.9)
    ),
    "adam_clipped_values": two_linears(optimizer=adam(), clip_value=0.02),
    "not_clipped": two_linears(clip_norm=1e6, part=True),
    "frozen_first": image(252, lambda: [nn.Conv2d(4, 6, 1)], frozen=("0.weight", "0.bias")),
    "frozen_middle": image(252, lambda: [nn.Conv2d(4, 6, 1)], frozen=("2.weight", "2.bias")),
    "frozen_bias": image(252, lambda: [nn.Conv2d(4, 6, 1)], frozen=("2.bias", "4.bias")),
    "frozen_weight": image(252, lambda: [nn.Conv2d(4, 6, 1)], frozen=("2.weight", "4.weight")),
}
CASES: dict[str, Case] = {
    **_CONVOLUTIONS,
    **_POOLS,
    **IMAGES,
    **_NORMS,
    **SAMPLE_NORMS,
    **_ACTIVATIONS,
    **_SOFTMAX,
    **_OTHERS,
    **MOVEMENT,
    **EMBEDDINGS,
    **ARITHMETIC,
    **RECURRENT,
    **ATTENTION,
    **_LOSSES,
    **PLACES,
    **_TRAINING,
}


def make_plan(case: Case, **more: Any) -> at.Plan:
    """Return the plan of a case."""
    module = case.build()
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in case.frozen)
    return at.plan(
        module,
        input_shape=case.input_shape,
        batch_size=case.batch_size,
        loss=make_loss(case),
        optimizer=case.optimizer(),
        clip_norm=case.clip_norm,
        clip_value=case.clip_value,
        **more,
    )


def make_loss(case: Case) -> Any:
    """Return the loss of a case."""
    if case.loss is not None:
        return case.loss()
    return nn.MSELoss() if case.target_shape else nn.CrossEntropyLoss()


def batch(case: Case, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return n samples and targets, C-contiguous, as a user would give them."""
    generator = np.random.default_rng(seed)
    x = case.inputs(generator.normal(size=(n, *case.input_shape))).astype(np.float32)
    if case.target_shape:
        normal = generator.normal(size=(n, *case.target_shape))
        return x, np.asarray(case.targets(normal), np.float32)
    return x, generator.integers(0, CLASSES, n).astype(np.int32)
