"""Every kind of data: interrupted and resumed, by way of a manifest, converted for armtrain-run."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "build" / "armtrain-run"
CLASSES, EACH = ("a", "b"), 5
VALUES = np.random.default_rng(0).integers(0, 255, (2 * EACH, 4)).astype(np.uint8)


def table(path: Path) -> str:
    """Write a table with a bad line."""
    rows = [",".join(map(str, (*v, CLASSES[i // EACH]))) for i, v in enumerate(VALUES)]
    path.write_text("\n".join(["p,q,r,s,label", *rows, "1,2,,4,a"]) + "\n")
    return f"csv:{path}?label=label&divide=255&bad=skip"


def images(path: Path) -> str:
    """Write images, and a file that is none."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for i, v in enumerate(VALUES):
        folder = path / CLASSES[i // EACH]
        folder.mkdir(parents=True, exist_ok=True)
        image.fromarray(v.reshape(2, 2)).save(folder / f"{i}.png")
    (path / "a" / "x.png").write_bytes(b"no image")
    return f"folder:{path}?bad=skip"


def sounds(path: Path) -> str:
    """Write sounds, and a file that is none."""
    for i, v in enumerate(VALUES):
        folder = path / CLASSES[i // EACH]
        folder.mkdir(parents=True, exist_ok=True)
        form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
        body = b"WAVE" + form + b"data" + struct.pack("<I", 4) + v.tobytes()
        (folder / f"{i}.wav").write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    (path / "a" / "x.wav").write_bytes(b"RIFF")
    return f"wav:{path}?bad=skip"


FILES = {"csv": (table, (4,)), "folder": (images, (1, 2, 2)), "wav": (sounds, (1, 4))}


def plan_of(shape: tuple[int, ...]) -> at.Plan:
    """Return the plan of a small net."""
    return at.plan(
        nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)),
        input_shape=shape,
        batch_size=3,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.1, momentum=0.9),
        threads=1,
    )


def saved(trainer: at.Trainer, path: Path) -> bytes:
    """Return the file of the weights."""
    trainer.save(path)
    return path.read_bytes()


def trained(plan: at.Plan, data: Any, path: Path, *cuts: int) -> bytes:
    """Return the weights of three epochs, interrupted after some."""
    for epochs in (*cuts, 3):
        trainer = at.Trainer(plan)
        options = {"checkpoint": path / "c", "resume": True} if cuts else {}
        trainer.fit(data(), epochs, progress=False, **options)
    return saved(trainer, path / "w.safetensors")


@pytest.mark.parametrize("kind", FILES)
def test_files(kind: str, tmp_path: Path) -> None:
    make, shape = FILES[kind]
    spec, plan = make(tmp_path / "data"), plan_of(shape)
    want = trained(plan, lambda: spec, tmp_path)
    assert trained(plan, lambda: spec, tmp_path, 1, 2) == want
    manifest = str(tmp_path / "m.json")
    assert main(["check-data", spec, "-o", manifest]) == 0
    assert trained(plan, lambda: f"manifest:{manifest}", tmp_path) == want
    plan.save(tmp_path / "p.plan")
    npz, weights = tmp_path / "d.npz", tmp_path / "run.safetensors"
    assert main(["convert-data", f"manifest:{manifest}", "-o", str(npz)]) == 0
    args = [RUN, tmp_path / "p.plan", "--data", f"npz:{npz}", "--epochs", "3", "--save", weights]
    done = subprocess.run([*map(str, args)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert weights.read_bytes() == want


class Items:
    """Samples by number."""

    def __len__(self) -> int:
        return len(VALUES)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        return VALUES[i], i // EACH


def generate() -> Iterator[tuple[Any, int]]:
    """Yield the same samples."""
    for i, v in enumerate(VALUES):
        yield v, i // EACH


@pytest.mark.parametrize("make", [Items, generate, lambda: generate])
def test_code(make: Any, tmp_path: Path) -> None:
    plan = plan_of((4,))
    labels = np.repeat(np.arange(2), EACH)
    want = trained(plan, lambda: (VALUES, labels), tmp_path)
    assert trained(plan, make, tmp_path) == want
    assert trained(plan, make, tmp_path, 1, 2) == want
