"""Checkpoints that go from one processor to another."""

from __future__ import annotations

import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from scripts.emulate import TARGETS, Target
from tests.emulated.runs import BATCH
from tests.emulated.test_training import program

pytestmark = pytest.mark.emulated

MANY = 3_000_000_000  # more than a signed word of 32 bits holds
CHECKSUM, STEP = 24, 72  # offsets in the header
(ARMV7,) = (t for t in TARGETS if t.name == "armv7")
(AARCH64,) = (t for t in TARGETS if t.name == "aarch64")


def run(target: Target | None, plan: Path, directory: Path, epochs: int) -> tuple[str, bytes]:
    """Resume up to a number of epochs; return what was said, and the weights file."""
    weights = directory.parent / "weights.safetensors"
    command = [str(program(target))]
    if target is not None:
        command = target.command(next(iter(target.levels)), program(target))
    options = ["--data", f"random:samples={BATCH},seed=3", "--epochs", str(epochs), "--resume"]
    files = ["--checkpoint", str(directory), "--save", str(weights), "--threads", "1"]
    done = subprocess.run(
        [*command, str(plan), *options, *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr, weights.read_bytes()


def count_on(directory: Path) -> None:
    """Make the only checkpoint one of step MANY."""
    (path,) = directory.glob("step-*.ckpt")
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, STEP, MANY)
    struct.pack_into("<I", data, CHECKSUM, zlib.crc32(data[CHECKSUM + 4 :]))
    path.unlink()
    (directory / f"step-{MANY:012}.ckpt").write_bytes(data)


def test_a_large_step_counter_survives_32_bits(plan: Path, tmp_path: Path) -> None:
    """ARMv7 counts on from three thousand million; 64-bit processors read the same from it."""
    directory = tmp_path / "run"
    run(None, plan, directory, 1)
    count_on(directory)
    _, trained = run(ARMV7, plan, directory, 2)
    written = directory / f"step-{MANY + 1:012}.ckpt"
    data = written.read_bytes()
    assert struct.unpack_from("<Q", data, STEP) == (MANY + 1,)
    for target in (ARMV7, AARCH64, None):
        said, loaded = run(target, plan, directory, 2)
        assert f"resumed at step {MANY + 1}" in said
        assert loaded == trained
    assert written.read_bytes() == data
