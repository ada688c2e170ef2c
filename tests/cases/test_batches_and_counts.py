"""Last batches, data smaller than a batch, and files whose counts do not fit.

Cases DATA-12, DATA-14, DATA-21 and DATA-24; files by both front ends.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.cli.main import main

RUN = Path(__file__).resolve().parents[2] / "build" / "armtrain-run"


def regression(batch: int, lr: float) -> at.Trainer:
    """Return y = w x + b at 0, with a squared error."""
    options: dict[str, Any] = {"loss": nn.MSELoss(), "optimizer": optim.SGD(lr=lr), "threads": 1}
    trainer = at.Trainer(at.plan(nn.Linear(1, 1), input_shape=(1,), batch_size=batch, **options))
    trainer.load_state_dict({"weight": np.zeros((1, 1)), "bias": np.zeros(1)})
    return trainer


def test_an_epochs_loss_is_the_mean_over_samples_not_over_batches() -> None:
    """Losses of 1 eight times and of 4 twice, in batches of 4, 4 and 2."""
    trainer = regression(4, lr=1e-9)
    x, y = np.ones((10, 1), np.float32), np.array([[1.0]] * 8 + [[2.0]] * 2, np.float32)
    sizes = []

    class Sizes:
        def on_step_end(self, step: int, logs: dict[str, Any]) -> None:
            sizes.append(logs["samples"])

    history = trainer.fit((x, y), 1, validation=(x, y), callbacks=[Sizes()], progress=False)
    assert sizes == [4, 4, 2]
    assert history.train_loss == [pytest.approx(1.6, rel=1e-6)]
    assert history.val_loss == [pytest.approx(1.6, rel=1e-6)]


def test_fewer_samples_than_a_batch_are_one_smaller_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """dL/db = -2 mean(y) = -8 over three samples: not -3, as over eight."""
    trainer = regression(8, lr=0.5)
    trainer.plan.save(tmp_path / "m.plan")
    x, y = np.zeros((3, 1), np.float32), np.array([[3.0], [4.0], [5.0]], np.float32)
    trainer.fit((x, y), 1, progress=False)
    assert trainer.state_dict()["bias"].item() == pytest.approx(4.0)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    args = [f"{tmp_path}/m.plan", "--data", f"npz:{tmp_path}/d.npz", "--epochs", "1"]
    done = subprocess.run([str(RUN), *args], capture_output=True, text=True, check=True)
    assert main(["train", *args]) == 0
    for said in (done.stdout + done.stderr, "".join(capsys.readouterr())):
        assert "3 samples are fewer than the planned batch of 8" in said


def write_idx(path: Path, shape: tuple[int, ...], size: int) -> Path:
    """Write the header of bytes and zeros (holes) up to `size` bytes."""
    with open(path, "wb") as file:
        file.write(struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape))
        file.truncate(size)
    return path


@pytest.mark.parametrize("front", ["run", "python"])
@pytest.mark.parametrize(
    ("images", "image_bytes", "labels", "label_bytes", "said"),
    [
        (60000, 9_912_422, 60000, 60008, ("47040016", "9912422")),
        (100, 16 + 78400, 100, 8 + 99, ("100", "99")),
        (60000, 47_040_016, 10000, 10008, ("60000", "10000")),
    ],
    ids=["images cut off", "one label short", "labels of the other part"],
)
def test_counts_of_idx_files(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    front: str,
    images: int,
    image_bytes: int,
    labels: int,
    label_bytes: int,
    said: tuple[str, ...],
) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    options: dict[str, Any] = {"loss": nn.CrossEntropyLoss(), "optimizer": optim.SGD(lr=0.1)}
    at.plan(net, input_shape=(1, 28, 28), batch_size=8, **options).save(tmp_path / "m.plan")
    x = write_idx(tmp_path / "x", (images, 28, 28), image_bytes)
    y = write_idx(tmp_path / "y", (labels,), label_bytes)
    args = [f"{tmp_path}/m.plan", "--data", f"idx:{x},{y}", "--epochs", "1"]
    if front == "run":
        done = subprocess.run([str(RUN), *args], capture_output=True, text=True, check=False)
        code, text = done.returncode, done.stderr
    else:
        code, text = main(["train", *args]), capsys.readouterr().err
    assert code == 1
    assert all(count in text for count in said), text
