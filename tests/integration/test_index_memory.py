"""What says which inputs are indices is in memory before the arena is compared with the rest."""

from __future__ import annotations

import re
import resource
import subprocess
from pathlib import Path

import pytest

import armtrain as at
from armtrain import nn, optim

pytestmark = pytest.mark.own_process

RUN = Path(__file__).resolve().parents[2] / "build" / "armtrain-run"
ELEMENTS, LIMIT = 1 << 20, 64 << 20


class First(nn.Module):
    """A prediction from the first of many inputs, an index or a number."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.last = nn.Linear(2, 1)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return the prediction."""
        return self.last(self.layer(x[:, :1]).reshape(-1, 2))


def left(layer: nn.Module, folder: Path) -> int:
    """Return the bytes that a run says are left for an arena that is larger than its limit."""
    options = {"loss": nn.MSELoss(), "optimizer": optim.SGD(lr=0.1), "threads": 1}
    plan = at.plan(First(layer), input_shape=(ELEMENTS,), batch_size=32, **options)
    plan.save(folder / "m.plan")
    done = subprocess.run(
        [str(RUN), "m.plan", "--data", "random", "--epochs", "1"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    found = re.search(r"the RLIMIT_AS of this process leaves (\d+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1])


def test_ranges_of_indices_are_counted(tmp_path: Path) -> None:
    """Two numbers of four bytes for each element of a sample."""
    taken = left(nn.Linear(1, 2), tmp_path) - left(nn.Embedding(9, 2), tmp_path)
    assert 8 * ELEMENTS <= taken <= 8 * ELEMENTS + (1 << 18)
