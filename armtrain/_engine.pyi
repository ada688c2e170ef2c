"""The C engine (kernels/cython/_engine.pyx): one open plan, buffers in and out.

Arrays are C-contiguous buffers in the user's (torch's) layout: x float32 [n, input...], target
int32 [n] or float32 [n, ...], weights float32. Errors are those of `armtrain.errors`.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias, final

from numpy.typing import NDArray
from typing_extensions import Buffer

# NumPy declares its arrays as buffers from Python 3.12 on only.
_Array: TypeAlias = Buffer | NDArray[Any]

@final
class Engine:
    """A plan opened into its arena; threads that use it wait for their turn.

    Every call but `info` raises EngineError in a process forked from the one that opened it.

    Parameters
    ----------
    plan : bytes
        A plan file's content; copied.
    seed : int
        Key of everything random.
    threads : int
        0 takes min(planned, usable processors); more than planned is refused.
    kernel_level : str, optional
        The best of this processor when None.
    poison : bool
        For tests: fill bytes that hold no value with NaN around every step.
    ignore_memory : bool
        Open without comparing the arena with free memory.
    beside_bytes : int
        What the caller takes beside the arena later; it must fit too.

    Raises
    ------
    PlanError
        The plan is damaged or inconsistent.
    DoesNotFitError
        The arena does not fit into memory, a control group or a resource limit.
    EngineError
        Unknown kernel level or too many threads.
    """

    def __init__(
        self,
        plan: _Array,
        *,
        seed: int = 0,
        threads: int = 0,
        kernel_level: str | None = None,
        poison: bool = False,
        ignore_memory: bool = False,
        beside_bytes: int = 0,
    ) -> None: ...
    def close(self) -> None:
        """Stop the threads and unmap the arena; later calls raise EngineError."""

    def info(self) -> dict[str, Any]:
        """Return the facts of `art_info` in kernels/include/armtrain.h by field name."""

    def target_range(self) -> dict[str, Any] | None:
        """Return the fields of `art_target_range`: the float targets that the loss takes."""

    def index_limits(self, out: _Array) -> None:
        """Write per element of a sample (uint32) the rows of the table whose index it is, or 0."""

    def resident_bytes(self) -> int:
        """Return the arena's bytes that are in memory, in whole pages; 0 if the kernel hides it."""

    def initialize(self) -> None:
        """Start a new run: weights by their initialisers, a fresh state."""

    def train_step(
        self, x: _Array, target: _Array, n: int, nanoseconds: _Array | None = None
    ) -> float:
        """Train on n samples and return their mean loss.

        To element i of `nanoseconds` (uint64, one a step of the plan) the time of step i is added.
        """

    def evaluate_step(self, x: _Array, target: _Array, n: int) -> tuple[float, int]:
        """Return the mean loss of n samples and how many were predicted right."""

    def counted(self) -> float:
        """Return what the mean loss of the last step was divided by, 0 if nothing counted."""

    def predict_step(self, x: _Array, n: int, out: _Array) -> None:
        """Write the predictions for n samples into `out`."""

    def read(self, name: str, out: _Array) -> None:
        """Copy a weight, buffer or optimiser state into `out`."""

    def write(self, name: str, data: _Array) -> None:
        """Replace a weight, buffer or optimiser state."""

    def peek(self, tensor: int, out: _Array) -> None:
        """Copy the raw arena bytes of any tensor of the plan, for tests and tools."""

    def poke(self, tensor: int, data: _Array) -> None:
        """Replace the raw arena bytes of any tensor of the plan, for tests and tools."""

    def run_steps(self, first: int, last: int, n: int) -> None:
        """Run steps [first, last) of the plan with n samples, for tests and tools."""

    def save_safetensors(
        self, path: str | PathLike[str], metadata: str | None = None, *, best: bool = False
    ) -> None:
        """Write weights and buffers under torch's names, crash-safe.

        `metadata` is the text of a JSON object of strings, all of it ASCII. `best` adds a mark of
        the run and of the best epoch that it remembers.
        """

    def check_best(self, path: str | PathLike[str]) -> None:
        """Raise DataError unless a file is what the run kept of its best epoch, or of a later one.

        Later than the checkpoint that was loaded.
        """

    def load_safetensors(self, path: str | PathLike[str]) -> None:
        """Read weights and buffers."""

    def checkpoint_save(self, directory: str | PathLike[str], keep: int, held: int = -1) -> None:
        """Write a checkpoint and remove all but the newest `keep`.

        `held` is the directory's open and locked descriptor: another directory of that name is
        refused. Without it a missing directory is made.
        """

    def checkpoint_load(self, directory: str | PathLike[str]) -> str:
        """Load the newest intact checkpoint; return one line per file that was skipped."""

    def get_state(self) -> dict[str, Any]:
        """Return the fields of `art_run_state`."""

    def set_state(self, state: Mapping[str, Any] | None = None, **fields: float) -> None:
        """Replace the given fields of the state."""

    def set_augment(
        self, *, flip: bool = False, shift: int = 0, crop: int = 0, noise: float = 0.0
    ) -> None:
        """Say what the run does to training inputs: checkpoints name it, and loading compares.

        Raises DataError for noise on indices.
        """

    def get_monitor(self) -> dict[str, Any]:
        """Return the fields of `art_monitor`: what the run remembers of its epochs' values."""

    def set_monitor(self, memory: Mapping[str, Any]) -> None:
        """Replace all fields of `art_monitor`."""

    def random_sample(self, seed: int, index: int, x: _Array, target: _Array) -> None:
        """Write sample `index` of `random:` data: x in [0, 1) and a label or float target."""

def schedule_scale(
    word: str,
    values: Sequence[float],
    milestones: Sequence[int],
    per_step: bool,
    epoch: int,
    step: int,
    plateau: float = 1.0,
) -> float:
    """Return the factor of the learning rates after `epoch` complete epochs and `step` steps.

    `plateau` is the factor of the schedule that follows measured values.
    """

def new_monitor() -> dict[str, Any]:
    """Return the fields of `art_monitor` of a new run."""

def monitor_epoch(
    memory: Mapping[str, Any],
    quantity: int,
    value: float,
    epoch: int,
    plateau: Sequence[float] | None = None,
) -> tuple[dict[str, Any], bool]:
    """Return the memory after another epoch, and whether its value is the best.

    `plateau` are the options of that schedule, or None.
    """

def monitor_exhausted(memory: Mapping[str, Any], quantity: int, epoch: int, patience: int) -> bool:
    """Return whether no value was as good as the best for `patience` epochs; never for 0."""

def shuffle(seed: int, epoch: int, count: int, first: int, out: _Array) -> None:
    """Write the sample indices (uint64) at positions `first` on of an epoch into `out`."""

@final
class Augmenter:
    """Random changes for training samples of one shape: (C, H, W), (C, L) or (F).

    Parameters
    ----------
    shape : sequence of int
    flip, shift, crop, noise
        As those of `armtrain.data.augment.Augment`.

    Raises
    ------
    ShapeError
        They make no sense for this shape.
    """

    def __init__(
        self, shape: Sequence[int], *, flip: bool, shift: int, crop: int, noise: float
    ) -> None: ...
    def apply(self, seed: int, epoch: int, rows: _Array, x: _Array, scratch: _Array) -> None:
        """Change x, float32 [n, ...], the samples `rows` (uint64), in place.

        `scratch` takes one sample.
        """

def kernel_levels() -> list[str]:
    """Return the kernel levels that this processor can run, slowest first."""

def cpu_features() -> int:
    """Return the feature bits of this processor."""

def multiply_adds(level: str, rounds: int) -> int:
    """Multiply and add in registers at a kernel level; return how many operations that were."""

def usable_cpus() -> int:
    """Return how many processors this process may use (affinity and control group)."""

def crc32(data: _Array) -> int:
    """Return zlib's CRC-32 of a buffer."""

def op_workspace(
    op: int,
    dims: Sequence[Sequence[int] | None],
    attrs: Sequence[float],
    threads: int,
) -> int:
    """Return the scratch bytes that an operation needs; mirrors armtrain/ir/workspace.py."""

def version() -> str:
    """Return the version of the C library."""
