"""`Plan`: everything known about a training run before its first step.

A plan is a value. It is made by `armtrain.plan`, written to and read from a `*.plan` file, and
executed by the engine, which adds no decision of its own.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from armtrain import atomic
from armtrain.errors import PlanError
from armtrain.files import read_regular
from armtrain.ir.program import Phase, Program
from armtrain.planfile.account import accounts
from armtrain.planfile.check import check_bytes
from armtrain.planfile.data import PlanData
from armtrain.planfile.describe import inspect_dict, summary_text
from armtrain.planfile.hash import model_hash
from armtrain.planfile.predict import extra_work, step_seconds
from armtrain.planfile.read import decode
from armtrain.planfile.verify import verify_same_model
from armtrain.planfile.write import encode

__all__ = ["Plan"]


@dataclasses.dataclass(frozen=True, repr=False)
class Plan(PlanData):
    """A compiled training program with its memory layout; see `PlanData` for the fields.

    Examples
    --------
    >>> import armtrain as at                                       # doctest: +SKIP
    >>> plan = at.plan(net, input_shape=(784,), batch_size=32,
    ...                loss=nn.CrossEntropyLoss(), optimizer=optim.SGD(lr=0.01))  # doctest: +SKIP
    >>> plan.arena_bytes == plan.lower_bound_bytes                  # doctest: +SKIP
    True
    """

    @staticmethod
    def of(data: PlanData) -> Plan:
        """Return the plan with the content `data`."""
        return Plan(**{f.name: getattr(data, f.name) for f in dataclasses.fields(PlanData)})

    @property
    def weights_bytes(self) -> int:
        """Exact bytes of parameters and running statistics."""
        return accounts(self)["weights_bytes"]

    @property
    def optimizer_bytes(self) -> int:
        """Exact bytes of the optimiser's state."""
        return accounts(self)["optimizer_bytes"]

    @property
    def gradients_peak_bytes(self) -> int:
        """Most exact bytes of parameter gradients live at one step."""
        return accounts(self)["gradients_peak_bytes"]

    @property
    def activations_peak_bytes(self) -> int:
        """Most exact bytes of activations, their gradients and saved values live at one step."""
        return accounts(self)["activations_peak_bytes"]

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the largest scratch buffer."""
        return accounts(self)["workspace_bytes"]

    @property
    def input_bytes(self) -> int:
        """Exact bytes of the batch of samples and labels."""
        return accounts(self)["input_bytes"]

    @property
    def stacks_bytes(self) -> int:
        """Bytes of the worker threads' stacks."""
        return accounts(self)["stacks_bytes"]

    @property
    def padding_bytes(self) -> int:
        """Bytes of the arena that hold nothing at the fullest step."""
        return accounts(self)["padding_bytes"]

    @property
    def batch_size(self) -> int:
        """Planned samples per batch."""
        return self.program.batch_size

    @property
    def threads(self) -> int:
        """Planned threads."""
        return self.program.threads

    @property
    def model_hash(self) -> str:
        """SHA-256 of the model text, in hexadecimal."""
        return model_hash(self.program).hex()

    @property
    def swap(self) -> dict[str, int]:
        """Bytes of the swap file and its traffic per step; zero without swapping."""
        return {"file_bytes": 0, "in_bytes_per_step": 0, "out_bytes_per_step": 0}

    @property
    def recompute(self) -> dict[str, int | float]:
        """Operations run again in the backward pass, and the extra work as a fraction."""
        ops, fraction = extra_work(self.program)
        return {"ops": ops, "extra_flops_fraction": fraction}

    @property
    def predicted(self) -> dict[str, float | str | None]:
        """Predicted seconds of a training step on the board, and what the rates are based on.

        Both are None for a plan that was saved without rates.
        """
        rates = self.rates
        seconds = None if rates is None else step_seconds(self.program, rates)
        basis = None if rates is None else rates.basis
        return {"step_seconds": seconds, "board": self.program.board, "basis": basis}

    def phase_steps(self, phase: Phase) -> range:
        """Return the steps of `phase` on the plan's step axis."""
        steps = [i for i, s in enumerate(self.program.steps) if s.phase == phase]
        return range(steps[0], steps[-1] + 1) if steps else range(0)

    def to_json_dict(self, inspect: bool = False) -> dict[str, Any]:
        """Return the figures of `plan --json`; with `inspect`, tensors and steps as well."""
        figures = accounts(self)
        result: dict[str, Any] = {
            "arena_bytes": self.arena_bytes,
            "lower_bound_bytes": self.lower_bound_bytes,
            "proved_minimum_bytes": self.proved_minimum_bytes,
            **{k: v for k, v in figures.items() if k.endswith("_bytes")},
            "budget_bytes": self.budget_bytes,
            "unbudgeted_bytes": self.unbudgeted_bytes,
            "floor_bytes": self.floor_bytes,
            "swap": self.swap,
            "recompute": self.recompute,
            "predicted": self.predicted,
            "batch_size": self.batch_size,
            "threads": self.threads,
            "board": self.program.board,
            "storage": None if self.storage is None else vars(self.storage),
            "loss": self.program.loss,
            "optimizer": self.program.optimizer,
            "clip_norm": self.program.clip_norm,
            "clip_value": self.program.clip_value,
            "input_shape": list(self.program.input_shape),
            "model_hash": self.model_hash,
        }
        return result | inspect_dict(self) if inspect else result

    def __str__(self) -> str:
        """Return a table for people."""
        return summary_text(self)

    def __repr__(self) -> str:
        """Return one line; `print(plan)` shows the table."""
        return (
            f"<Plan model {self.model_hash[:12]}, batch {self.batch_size}, {self.threads} "
            f"thread(s), arena {self.arena_bytes:,d} B>"
        )

    def to_bytes(self) -> bytes:
        """Return the bytes of the plan file, the same on every host."""
        return encode(self)

    @staticmethod
    def from_bytes(content: bytes, *, check: bool = True) -> Plan:
        """Return the plan in `content`.

        Parameters
        ----------
        content : bytes
        check : bool
            Also run the independent checker.

        Raises
        ------
        PlanError
            Naming what is damaged or inconsistent.
        """
        try:
            content = bytes(memoryview(content))
        except TypeError as error:
            raise PlanError(
                f"a plan file's content is bytes, got {type(content).__name__}; Plan.load(path) "
                "reads a file"
            ) from error
        data = decode(content)
        if check:
            check_bytes(content)
        return Plan.of(data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan file `path`; an existing file is replaced at once or stays as it was.

        Raises
        ------
        StorageError
            When the file cannot be written.
        """
        atomic.write_bytes(path, self.to_bytes())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Plan:
        """Read and check a plan file.

        Raises
        ------
        StorageError
            When the file cannot be read.
        PlanError
            When it is damaged or inconsistent.
        """
        return Plan.from_bytes(read_regular(path, "the plan "))

    def verify_program(self, program: Program) -> None:
        """Refuse unless the plan was made for the same model and batch as `program`.

        Raises
        ------
        PlanError
            Naming both model hashes and the first difference.
        """
        verify_same_model(self.program, program)
