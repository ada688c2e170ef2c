"""What the boards train, and what the same plan gives under user-mode emulation."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from scripts.board_image import ROOT, Board
from scripts.emulate import TARGETS, Target

TARGET_OF = {"arm64": "aarch64", "armhf": "armv7"}
WHEEL_TAG_OF = {"arm64": "aarch64", "armhf": "armv7l"}
FOLDER = "/root"
EPOCHS = 2
BATCH, FEW, FEW_EPOCHS = 32, 160, 8
STEPS_PER_EPOCH = FEW // BATCH
DIGITS = f"--epochs {EPOCHS} --seed 1"
# A checkpoint after every step: most moments of this training are moments of saving.
SAVING = f"--data npz:few.npz --epochs {FEW_EPOCHS} --seed 1 --checkpoint-every 1"


@dataclass(frozen=True)
class Training:
    """Files for one kind of userland, and the results to expect on it.

    Attributes
    ----------
    board : Board
        Its usual processor model decides the kernel level.
    folder : Path
        Holds digits.plan, digits.npz, few.npz and the results.
    """

    board: Board
    folder: Path

    @property
    def target(self) -> Target:
        """The user-mode target with the board's programs."""
        (found,) = (t for t in TARGETS if t.name == TARGET_OF[self.board.debian])
        return found

    @property
    def level(self) -> str:
        """The kernel level that must be chosen on the board."""
        return self.target.levels[self.board.model]

    @property
    def program(self) -> Path:
        """armtrain-run for the board."""
        return ROOT / "dist" / f"armtrain-run-{self.target.name}"

    @property
    def wheel(self) -> Path:
        """The wheel for the board."""
        pattern = f"armtrain-*_{WHEEL_TAG_OF[self.board.debian]}.whl"
        (found,) = (ROOT / "dist").glob(pattern)
        return found

    @property
    def files(self) -> list[Path]:
        """What goes to the board."""
        names = ("digits.plan", "digits.npz", "few.npz")
        return [self.program, self.wheel, *(self.folder / name for name in names)]

    def prepare(self) -> None:
        """Plan on this machine, and write the data in the form that armtrain-run reads."""
        command = [sys.executable, "-m", "armtrain"]
        plan = ["plan", "zoo:digits_cnn", "-o", str(self.folder / "digits.plan")]
        plan += ["--batch", str(BATCH), "--optimizer", "sgd:lr=0.05,momentum=0.9"]
        data = ["convert-data", "digits", "-o", str(self.folder / "digits.npz")]
        for words in (plan, data):
            subprocess.run([*command, *words], cwd=ROOT, check=True, capture_output=True)
        with np.load(self.folder / "digits.npz") as digits:
            few = {name: digits[name][:FEW] for name in digits.files}
        np.savez(self.folder / "few.npz", **few)

    def _user_mode(self, options: str, name: str) -> bytes:
        """Train under user-mode emulation and return the weights file."""
        command = self.target.command(self.board.model, self.program)
        words = [*command, "digits.plan", *options.split(), "--save", name]
        subprocess.run(words, cwd=self.folder, check=True, capture_output=True)
        return (self.folder / name).read_bytes()

    @cached_property
    def digits_weights(self) -> bytes:
        """Weights after EPOCHS epochs of the digits."""
        return self._user_mode(f"--data npz:digits.npz {DIGITS}", "digits.safetensors")

    @cached_property
    def saving_weights(self) -> bytes:
        """Weights after the training that saves after every step."""
        return self._user_mode(f"{SAVING} --checkpoint user-mode", "few.safetensors")
