"""A stand-in for the compiled engine that remembers what it was asked to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from armtrain.errors import StorageError


def shuffle(seed: int, epoch: int, count: int, first: int, out: np.ndarray) -> None:
    """Write a permutation that depends on seed and epoch."""
    order = np.random.default_rng([seed, epoch]).permutation(count)
    out[:] = order[first : first + len(out)]


class FakeEngine:
    """Its loss is the mean of the targets; its weight sums all of them, order included."""

    def __init__(self, seed: int = 0) -> None:
        self.state: dict[str, Any] = {
            "seed": seed,
            "step": 0,
            "epoch": 0,
            "position": 0,
            "loss_counted": 0.0,
            "loss_sum": 0.0,
            "learning_rate_scale": 1.0,
            "n_train": 0,
        }
        self.monitor: dict[str, Any] = {"schedule_crc32": 0, "data_crc32": 0}
        self.weight = 0.0
        self.counts = 0
        self.batches: list[list[float]] = []
        self.saves: list[int] = []
        self.before_step: Callable[[], None] = lambda: None

    def info(self) -> dict[str, Any]:
        return {"kernel_level": "fake", "arena_bytes": 4096, "ignored_label": -100}

    def get_state(self) -> dict[str, Any]:
        return dict(self.state)

    def set_state(self, state: dict[str, Any]) -> None:
        self.state = dict(state)

    def get_monitor(self) -> dict[str, Any]:
        return dict(self.monitor)

    def set_monitor(self, memory: dict[str, Any]) -> None:
        self.monitor = dict(memory)

    def train_step(self, x: np.ndarray, target: np.ndarray, n: int) -> float:
        assert len(x) == len(target) == n
        self.counts = n
        self.before_step()
        self.state["step"] += 1
        self.batches.append(target.ravel().tolist())
        for value in target.ravel().tolist():
            self.weight = self.weight / 3 + value
        return float(np.mean(target))

    def evaluate_step(self, x: np.ndarray, target: np.ndarray, n: int) -> tuple[float, int]:
        assert len(x) == len(target) == n
        self.counts = n
        return float(np.mean(target)), int(np.sum(target % 2 == 0))

    def counted(self) -> float:
        return float(self.counts)

    def checkpoint_save(self, directory: str, keep: int, held: int) -> None:
        assert held >= 0
        path = Path(directory) / f"step-{self.state['step']:012d}.ckpt"
        path.write_text(json.dumps([self.state, self.weight]))
        self.saves.append(self.state["step"])
        for old in sorted(Path(directory).glob("*.ckpt"))[:-keep]:
            old.unlink()

    def checkpoint_load(self, directory: str) -> str:
        notes = []
        for path in sorted(Path(directory).glob("*.ckpt"), reverse=True):
            text = path.read_text()
            if text:
                self.state, self.weight = json.loads(text)
                return "\n".join(notes)
            notes.append(f"skipped {path.name}: it is empty")
        raise StorageError("no usable checkpoint")
