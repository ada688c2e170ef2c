"""`ARMTRAIN_CPU`: a level that this processor lacks is refused by every front end, and shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from armtrain import zoo
from armtrain.cli.main import main
from armtrain.compiler import plan
from armtrain.runtime.engine import engine_module

ROOT = Path(__file__).resolve().parents[2]
LEVELS = engine_module().kernel_levels()
FRONT = [sys.executable, "-m", "armtrain"]


def run(command: list[str], level: str) -> subprocess.CompletedProcess[str]:
    """Run a command with ARMTRAIN_CPU set."""
    environment = {**os.environ, "ARMTRAIN_CPU": level, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a plan."""
    entry = zoo.entry("digits_cnn")
    path = tmp_path_factory.mktemp("plan") / "m.plan"
    plan(
        entry.build(),
        input_shape=entry.input_shape,
        batch_size=4,
        loss=entry.loss(),
        optimizer=entry.optimizer(),
        threads=1,
    ).save(path)
    return str(path)


@pytest.mark.parametrize("front", ["train", "armtrain-run", "bench"])
@pytest.mark.parametrize("level", ["abacus", "neon_z9"])
def test_an_unknown_level_is_refused(front: str, level: str, small: str) -> None:
    data = ["--data", "random:", "--epochs", "1"]
    commands = {
        "train": [*FRONT, "train", small, *data],
        "armtrain-run": [str(ROOT / "build" / "armtrain-run"), small, *data],
        "bench": [*FRONT, "bench", small, "--repeat", "1", "--kernel-level", "c"],
    }
    done = run(commands[front], level)
    assert done.returncode == 1
    assert f"ARMTRAIN_CPU={level} of the environment" in done.stderr
    assert done.stderr.endswith(f"set it to one of: {' '.join(LEVELS)}\n")
    assert done.stdout == ""


@pytest.mark.parametrize("level", LEVELS)
def test_a_known_level_is_used(level: str, small: str) -> None:
    done = run(
        [str(ROOT / "build" / "armtrain-run"), small, "--data", "random:", "--epochs=1"], level
    )
    assert done.returncode == 0
    assert f"kernels {level}," in done.stdout + done.stderr


def test_doctor_warns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ARMTRAIN_CPU", "abacus")
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert any("ARMTRAIN_CPU=abacus" in w["problem"] for w in told["warnings"])
    assert told["kernel_levels"] == LEVELS
    assert "is refused" in told["kernel_level_reason"]
