"""A control group's limit near what a run needs: a refusal or a finished run, never a kill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain.zoo import entry

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "build" / "armtrain-run"
FRONTS = {"run": [str(RUN)], "python": [sys.executable, "-m", "armtrain", "train"]}
STEP = 64 << 10
AROUND = 4
BATCH = 1024


@pytest.fixture
def group() -> Iterator[Path]:
    """Return the folder of a new control group (version 1) for memory."""
    folder = Path("/sys/fs/cgroup/memory") / f"armtrain-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group of version 1 can be made for memory: {error.strerror}")
    if not (folder / "memory.limit_in_bytes").exists():
        folder.rmdir()
        pytest.skip(f"{folder.parent} is no control group of version 1")
    yield folder
    folder.rmdir()


@pytest.mark.parametrize("front", FRONTS)
def test_no_limit_ends_in_a_kill(front: str, group: Path, tmp_path: Path) -> None:
    if not RUN.exists():
        pytest.skip("build/armtrain-run is not built")
    arena = make_work(tmp_path)
    command = [*FRONTS[front], "net.plan", "--data", "npz:data.npz", "--epochs", "1"]

    def fits(room: int) -> bool:
        """Run with that much more than the arena."""
        (group / "memory.limit_in_bytes").write_text(str(arena + room))
        shell = ["sh", "-c", f'echo $$ > {group}/tasks && exec "$@"', "sh"]
        done = subprocess.run(
            [*shell, *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode in (0, 3), f"arena + {room}: {done.returncode} {done.stderr}"
        assert done.returncode == 0 or "leaves" in done.stderr
        return done.returncode == 0

    refused, ran = 0, 64 << 20
    assert fits(ran)
    while ran - refused > STEP:
        middle = (refused + ran) // 2 // STEP * STEP
        refused, ran = (refused, middle) if fits(middle) else (middle, ran)
    for i in range(1, AROUND):
        fits(refused - i * STEP)
        fits(ran + i * STEP)


def make_work(folder: Path) -> int:
    """Write a plan, whose arena's bytes are returned, and data of one batch and a bit."""
    model = entry("lenet5")
    plan = at.plan(
        model.build(),
        input_shape=model.input_shape,
        batch_size=BATCH,
        loss=model.loss(),
        optimizer=model.optimizer(),
        threads=2,
    )
    plan.save(folder / "net.plan")
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (BATCH + 8, 1, 28, 28), np.uint8)
    np.savez(folder / "data.npz", x=x, y=rng.integers(0, 10, BATCH + 8))
    return plan.arena_bytes
