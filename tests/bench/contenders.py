"""Training steps of one workload by each framework, as objects that are timed in turns."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import armtrain as at
from armtrain import nn, optim
from armtrain.ir.program import Role
from tests.bench.workloads import Batch, Workload, make_net, torch_layers

__all__ = [
    "Armtrain",
    "Contender",
    "RunProgram",
    "Torch",
    "check_same_work",
    "has_torch",
    "make_plan",
    "set_torch_threads",
]

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "build" / "armtrain-run"
LEARNING_RATE = 0.01
_FILE_BYTES = 16 << 20
_ALIKE_AT_FIRST, _ALIKE_LATER = 1e-4, 3e-2
"""Relative differences of losses: frameworks add in another order, and steps multiply that."""


class Contender(Protocol):
    """A framework that trains one workload."""

    def seconds(self, steps: int) -> tuple[float, float]:
        """Train `steps` steps; return seconds of (processors, wall clock) for each."""


def make_plan(workload: Workload, threads: int) -> at.Plan:
    """Return the plan of a workload: plain SGD, cross-entropy."""
    return at.plan(
        make_net(workload, nn),
        input_shape=workload.shape,
        batch_size=workload.batch,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=LEARNING_RATE),
        train_only=workload.trained,
        threads=threads,
    )


class _InProcess:
    """Steps of this process.

    Attributes
    ----------
    names : list of str
        Tensors that are trained.
    """

    names: list[str]

    def step(self) -> float:
        """Train the batch once."""
        raise NotImplementedError

    def state(self) -> dict[str, NDArray[np.float32]]:
        """Return copies of weights and buffers by name."""
        raise NotImplementedError

    def load(self, state: dict[str, NDArray[np.float32]]) -> None:
        """Set weights and buffers."""
        raise NotImplementedError

    def trained(self) -> dict[str, NDArray[np.float32]]:
        """Return copies of the tensors that are trained."""
        state = self.state()
        return {name: state[name] for name in self.names}

    def seconds(self, steps: int) -> tuple[float, float]:
        """Train `steps` steps; return seconds of (processors, wall clock) for each."""
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(steps):
            self.step()
        return (time.process_time() - cpu) / steps, (time.perf_counter() - wall) / steps


class Armtrain(_InProcess):
    """`Trainer.step`.

    Parameters
    ----------
    plan : Plan
    batch : Batch
    threads : int
        At most the planned ones.
    """

    def __init__(self, plan: at.Plan, batch: Batch, threads: int = 0) -> None:
        self._trainer, self._batch = at.Trainer(plan, seed=0, threads=threads), batch
        self.names = [t.name for t in plan.program.tensors if t.role is Role.WEIGHT]

    def step(self) -> float:
        """Train the batch once."""
        return self._trainer.step(self._batch.x, self._batch.y)

    def state(self) -> dict[str, NDArray[np.float32]]:
        """Return copies of weights and buffers by name."""
        return self._trainer.state_dict()

    def load(self, state: dict[str, NDArray[np.float32]]) -> None:
        """Set weights and buffers."""
        self._trainer.load_state_dict(state)


class Torch(_InProcess):
    """PyTorch as its tutorials use it: eager, contiguous tensors; channels last if asked for."""

    def __init__(self, workload: Workload, batch: Batch, *, channels_last: bool = False) -> None:
        import torch

        order = torch.channels_last if channels_last else torch.contiguous_format
        self._torch = torch
        self._net = make_net(workload, torch_layers()).to(memory_format=order)
        trained = {k: p for k, p in self._net.named_parameters() if p.requires_grad}
        self.names = list(trained)
        self._optimizer = torch.optim.SGD(list(trained.values()), lr=LEARNING_RATE)
        self._loss = torch.nn.CrossEntropyLoss()
        x, self._y = torch.from_numpy(batch.x), torch.from_numpy(batch.y).long()
        self._x = x.long() if workload.tokens else x
        if channels_last and x.dim() == 4:
            self._x = x.contiguous(memory_format=order)

    def step(self) -> float:
        """Train the batch once."""
        self._optimizer.zero_grad()
        loss = self._loss(self._net(self._x), self._y)
        loss.backward()
        self._optimizer.step()
        return float(loss.detach())

    def state(self) -> dict[str, NDArray[np.float32]]:
        """Return copies of weights and buffers by name."""
        return {k: v.detach().numpy().copy() for k, v in self._net.state_dict().items()}

    def load(self, state: dict[str, NDArray[np.float32]]) -> None:
        """Set weights and buffers; the count of batches, which no step reads, stays."""
        given = {k: self._torch.from_numpy(v.copy()) for k, v in state.items()}
        wrong = self._net.load_state_dict(given, strict=False)
        missing = [k for k in wrong.missing_keys if not k.endswith("num_batches_tracked")]
        if missing or wrong.unexpected_keys:
            raise ValueError(f"PyTorch's network has other tensors: {missing} {wrong}")


class RunProgram:
    """`armtrain-run`: a run of many epochs minus a run of one, in which all else is the same.

    The data are an npz file of some batches, read anew in every epoch as in any training.

    Parameters
    ----------
    plan : Plan
    batch : Batch
    folder : Path
        Takes plan and data.
    batches : int
        In an epoch; 16 MiB of them are the most.
    """

    def __init__(self, plan: at.Plan, batch: Batch, folder: Path, batches: int) -> None:
        self._batches = max(1, min(batches, _FILE_BYTES // batch.x.nbytes))
        times = (self._batches, *[1] * (batch.x.ndim - 1))
        plan.save(folder / "bench.plan")
        y = np.tile(batch.y, (self._batches, *[1] * (batch.y.ndim - 1)))
        np.savez(folder / "bench.npz", x=np.tile(batch.x, times), y=y)
        self._folder = folder

    def seconds(self, steps: int) -> tuple[float, float]:
        """Train about `steps` steps; return seconds of (processors, wall clock) for each."""
        epochs = max(1, round(steps / self._batches))
        one, many = self._run(1), self._run(1 + epochs)
        done = epochs * self._batches
        return (many[0] - one[0]) / done, (many[1] - one[1]) / done

    def peak_bytes(self) -> int:
        """Return the high-water mark of a fresh process that trains two epochs, by its log."""
        log = self._folder / "bench.log"
        log.unlink(missing_ok=True)
        self._run(2, "--log", str(log))
        return int(json.loads(log.read_text().splitlines()[-1])["peak_rss_bytes"])

    def _run(self, epochs: int, *more: str) -> tuple[float, float]:
        """Train; return the seconds of (processors, wall clock) of the whole process."""
        command = [str(RUN), "bench.plan", "--data", "npz:bench.npz", "--epochs", str(epochs)]
        began = time.perf_counter()
        process = subprocess.Popen([*command, "--quiet", *more], cwd=self._folder)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
        return used.ru_utime + used.ru_stime, time.perf_counter() - began


def has_torch() -> bool:
    """Say whether PyTorch can be imported."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def set_torch_threads(threads: int) -> None:
    """Let PyTorch use that many threads."""
    import torch

    torch.set_num_threads(threads)


@dataclass(frozen=True)
class Work:
    """What was trained: how many parameters in how many tensors."""

    parameters: int
    tensors: int


def check_same_work(contenders: dict[str, Any], steps: int = 3) -> Work:
    """Train some steps with all, from the same weights; return what they train.

    Vectors are varied first. Gradients of biases can be too small to be seen in anything but a 0;
    that of a scale is nearly nothing in front of another normalisation where the bias is 0.

    Parameters
    ----------
    contenders : dict of _InProcess
        By name.

    Raises
    ------
    ValueError
        One has another number of trained parameters, leaves a tensor as it was, or has other
        losses.
    """
    rng = np.random.default_rng(1)
    start: dict[str, NDArray[np.float32]] = {}
    losses, found = {}, {}
    for name, contender in contenders.items():
        start = start or {k: _varied(v, rng) for k, v in contender.state().items()}
        contender.load(start)
        before = contender.trained()
        losses[name] = [contender.step() for _ in range(steps)]
        after = contender.trained()
        same = [k for k in before if np.array_equal(before[k], after[k])]
        if same:
            raise ValueError(
                f"{name}: {len(same)} of {len(before)} trained tensors did not change in {steps} "
                f"steps: {', '.join(same[:5])}"
            )
        found[name] = Work(sum(a.size for a in before.values()), len(before))
    if len(set(found.values())) > 1:
        raise ValueError(f"not the same trained parameters: {found}")
    allowed = np.array([_ALIKE_AT_FIRST] + [_ALIKE_LATER] * (steps - 1))
    reference = np.array(next(iter(losses.values())))
    if any(np.any(np.abs(v / reference - 1) > allowed) for v in map(np.array, losses.values())):
        raise ValueError(f"not the same losses from the same weights: {losses}")
    return next(iter(found.values()))


def _varied(values: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Return the values; of a vector half are 0, or where there is one value alone, random."""
    chosen = rng.random(values.shape) < 0.5
    if values.ndim > 1:
        return values
    if np.ptp(values):
        return np.where(chosen, values, np.float32(0))
    return values + np.where(chosen, rng.uniform(-0.5, 0.5, values.shape), 0).astype(np.float32)
