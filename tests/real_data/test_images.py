"""Fashion-MNIST, straight from its gzip files through the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.real_data


def _armtrain(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "armtrain", *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def test_lenet_reaches_the_published_accuracy(
    folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """A PyTorch training of such a network reached 87.3 % after 5 epochs."""
    folder, plan, log = folder_of("fashion-mnist"), tmp_path / "net.plan", tmp_path / "log.jsonl"
    data = {
        part: f"idx:{folder}/{part}-images-idx3-ubyte.gz,{folder}/{part}-labels-idx1-ubyte.gz"
        for part in ("train", "t10k")
    }
    optimizer = "sgd:lr=0.01,momentum=0.9"
    _armtrain("plan", "zoo:lenet5", "--batch", "32", "--optimizer", optimizer, "-o", plan)
    options = ["--epochs", "5", "--seed", "0", "--log", log]
    _armtrain("train", plan, "--data", data["train"], "--validation", data["t10k"], *options)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(records) == 5
    assert records[-1]["val_accuracy"] == pytest.approx(0.87, abs=0.015)
