"""Layers, containers and losses with the names, arguments and defaults of `torch.nn`.

Modules here hold no data: a parameter is a description (shape, initialiser, whether it is
trained), and calling a module with a symbolic tensor records what it computes.
"""

from typing import TYPE_CHECKING

from armtrain.errors import unknown_name
from armtrain.nn import functional
from armtrain.nn.activation import (
    ELU,
    GELU,
    SELU,
    Hardsigmoid,
    Hardswish,
    LeakyReLU,
    Mish,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softplus,
    Tanh,
)
from armtrain.nn.adaptive import AdaptiveAvgPool1d, AdaptiveAvgPool2d
from armtrain.nn.attention import MultiheadAttention
from armtrain.nn.container import ModuleList, Sequential
from armtrain.nn.conv import Conv1d, Conv2d
from armtrain.nn.conv_transpose import ConvTranspose1d, ConvTranspose2d
from armtrain.nn.dropout import Dropout
from armtrain.nn.embedding import Embedding
from armtrain.nn.linear import Linear
from armtrain.nn.losses import (
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
    parse_loss,
)
from armtrain.nn.module import Module
from armtrain.nn.norm import BatchNorm1d, BatchNorm2d
from armtrain.nn.parameter import Buffer, Parameter
from armtrain.nn.pool import (
    AvgPool1d,
    AvgPool2d,
    MaxPool1d,
    MaxPool2d,
)
from armtrain.nn.positional import PositionalEncoding
from armtrain.nn.prelu import PReLU
from armtrain.nn.recurrent import GRU, LSTM, RNN
from armtrain.nn.recurrent_cells import GRUCell, LSTMCell, RNNCell
from armtrain.nn.reshape import Flatten, Identity, Unflatten
from armtrain.nn.sample_norm import GroupNorm, LayerNorm, RMSNorm
from armtrain.nn.similarity import CosineSimilarity
from armtrain.nn.softmax import LogSoftmax, Softmax
from armtrain.nn.tensor import Tensor
from armtrain.nn.trace import trace
from armtrain.nn.transformer import TransformerEncoderLayer
from armtrain.nn.upsample import Upsample

__all__ = [
    "ELU",
    "GELU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Buffer",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
    "GroupNorm",
    "Hardsigmoid",
    "Hardswish",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "Loss",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "Mish",
    "Module",
    "ModuleList",
    "MultiheadAttention",
    "NLLLoss",
    "PReLU",
    "Parameter",
    "PositionalEncoding",
    "RMSNorm",
    "RNNCell",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softplus",
    "Tanh",
    "Tensor",
    "TransformerEncoderLayer",
    "Unflatten",
    "Upsample",
    "functional",
    "parse_loss",
    "trace",
]

if not TYPE_CHECKING:  # type checkers know the names, and would take every other one for one

    def __getattr__(name: str) -> None:
        """Say what there is instead of a name that torch has and armtrain lacks."""
        raise unknown_name("armtrain.nn", name, __all__)
