"""The training program: tensors in arena layout, steps over them, no offsets yet.

This is what the passes produce, what lifetimes are read from and what a plan file stores.
All values are immutable and hold no policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NewType

from armtrain.dtypes import DType, nbytes
from armtrain.ir.ops import OpCode

__all__ = [
    "Init",
    "InitKind",
    "Layout",
    "Phase",
    "Program",
    "Role",
    "Step",
    "StorageId",
    "Tensor",
    "TensorId",
]

TensorId = NewType("TensorId", int)
StorageId = NewType("StorageId", int)


class Role(IntEnum):
    """What a tensor is for; the value is stored in plan files (append only)."""

    WEIGHT = 0  # trained parameter, persistent, saved under torch's name
    FROZEN = 1  # parameter with requires_grad=False, persistent, saved
    BUFFER = 2  # running statistics, persistent, saved
    STATE = 3  # optimiser state, persistent, checkpointed only
    GRADIENT = 4  # gradient of a parameter
    ACTIVATION = 5  # forward value
    DERIVATIVE = 6  # gradient of an activation
    SAVED = 7  # kept by forward for backward (statistics, pool indices)
    WORKSPACE = 8  # scratch of one step
    INPUT = 9  # batch of samples
    TARGET = 10  # batch of labels or regression targets
    METRIC = 11  # loss, correct count, norms
    STACK = 12  # stack of a worker thread, live always
    OUTPUT = 13  # result of the predict phase


PERSISTENT_ROLES = frozenset({Role.WEIGHT, Role.FROZEN, Role.BUFFER, Role.STATE, Role.STACK})
"""Roles whose storage is live at every step and never shared."""


class Phase(IntEnum):
    """The three step lists of a plan; all share one arena and the persistent tensors."""

    TRAIN = 0
    EVALUATE = 1
    PREDICT = 2


class InitKind(IntEnum):
    """How the engine fills a persistent tensor for a new run (append only)."""

    NONE = 0
    CONSTANT = 1  # a = value
    UNIFORM = 2  # in [a, b)
    NORMAL = 3  # mean a, standard deviation b
    SINUSOID = 4  # row p: sin(p a^k) and cos(p a^k) in columns 2 k and 2 k + 1
    NORMAL_BUT_ROW = 5  # mean 0, standard deviation b; 0 in row a of the user's array


@dataclass(frozen=True)
class Init:
    """Initialiser of a persistent tensor; random kinds are keyed by (seed, tensor name)."""

    kind: InitKind = InitKind.NONE
    a: float = 0.0
    b: float = 0.0


@dataclass(frozen=True)
class Layout:
    """How the user's (torch's) array maps to the arena array.

    The user's array of shape `shape` is viewed as `view` (same elements, row-major), then its
    axes are permuted: arena axis i is view axis `perm[i]`. `shape[0]` and `view[0]` are the
    batch for batched tensors.
    Linear: shape (O, I), view (O, I), perm (1, 0). Linear after flattening an image:
    view (O, C, H, W), perm (2, 3, 1, 0). Conv2d: shape (O, C/G, KH, KW),
    view (G, O/G, C/G, KH, KW), perm (0, 3, 4, 2, 1). Image batch: perm (0, 2, 3, 1).
    """

    shape: tuple[int, ...]
    view: tuple[int, ...]
    perm: tuple[int, ...]

    @staticmethod
    def plain(shape: tuple[int, ...]) -> Layout:
        """Return the identity layout of `shape`."""
        return Layout(shape, shape, tuple(range(len(shape))))


@dataclass(frozen=True)
class Tensor:
    """One named array.

    Attributes
    ----------
    id : TensorId
        Index into `Program.tensors`.
    name : str
        Unique. Persistent tensors carry torch's parameter name ('conv1.weight'); optimiser
        state 'conv1.weight/momentum', '/exp_avg', '/exp_avg_sq'.
    role : Role
    dtype : DType
    dims : tuple of int
        Arena dimensions (elements), at most 6; `dims[0]` is the planned batch if `batched`.
    batched : bool
        The engine replaces `dims[0]` by the actual batch, which is never larger.
    storage : StorageId
        Tensors with equal storage share one address (in-place results, views). Offset in the
        storage is always 0. The storage's size is the largest of its tensors.
    layout : Layout
        Mapping to the user's array.
    init : Init
    """

    id: TensorId
    name: str
    role: Role
    dtype: DType
    dims: tuple[int, ...]
    batched: bool
    storage: StorageId
    layout: Layout
    init: Init = Init()

    @property
    def nbytes(self) -> int:
        """Exact bytes at the planned batch, without alignment padding."""
        return nbytes(self.dims, self.dtype)


@dataclass(frozen=True)
class Step:
    """One operation: `operands` in catalogue order, None for an absent optional one.

    `layer` is the readable origin ('layer1.0.conv1'); `kind` one of 'F', 'CG', 'CD', 'AG', 'L'
    (forward, weight gradient, derivative, apply, loss) as in NNTrainer's execution order.
    """

    op: OpCode
    phase: Phase
    operands: tuple[TensorId | None, ...]
    attrs: tuple[int | float, ...]
    layer: str
    kind: str


@dataclass(frozen=True)
class Program:
    """All tensors and all steps, phases in order TRAIN, EVALUATE, PREDICT.

    Attributes
    ----------
    model_text : str
        Canonical text of the forward graph at the planned batch, with names, shapes and
        trainability; its SHA-256 is the model hash.
    batch_size, threads : int
    loss, optimizer : str
        Canonical texts ('cross_entropy', 'sgd:lr=0.01,momentum=0.9').
    input_shape : tuple of int
        User's shape of one sample, without the batch.
    """

    tensors: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    model_text: str
    batch_size: int
    threads: int
    loss: str
    optimizer: str
    clip_norm: float | None
    input_shape: tuple[int, ...]
    board: str = "generic"
    clip_value: float | None = None
