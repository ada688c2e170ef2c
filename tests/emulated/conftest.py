"""The plan that every emulated training runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulated.runs import BATCH


@pytest.fixture(scope="session")
def plan(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the plan of a small convolutional network."""
    path = tmp_path_factory.mktemp("emulated") / "digits.plan"
    command = [sys.executable, "-m", "armtrain", "plan", "zoo:digits_cnn", "-o", str(path)]
    options = ["--batch", str(BATCH), "--optimizer", "sgd:lr=0.02,momentum=0.9"]
    subprocess.run([*command, *options], cwd=root, check=True, capture_output=True)
    return path
