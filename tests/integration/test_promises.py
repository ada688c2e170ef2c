"""The promises as tests: same bits everywhere, nothing lost, known before it runs.

Each test compares bytes, never values within a tolerance.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "build" / "armtrain-run"
DATA = "random:samples=200,seed=3"
LOGGED = ("epoch", "kernel_level", "train_loss", "val_loss", "val_accuracy", "arena_bytes")


class Residual(nn.Module):
    """A net with everything that could break equality: BN, dropout, a fork, pooling, groups."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.bn2 = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.25)
        self.fc = nn.Linear(8 * 6 * 6, 10)
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return logits."""
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)) + x)
        return self.fc(self.drop(self.flatten(self.pool(x))))


def residual_plan(
    threads: int = 1, clip_norm: float | None = None, batch_size: int = 16
) -> at.Plan:
    """Return a plan of `Residual` with momentum."""
    return at.plan(
        Residual(),
        input_shape=(3, 12, 12),
        batch_size=batch_size,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.05, momentum=0.9, weight_decay=1e-4),
        clip_norm=clip_norm,
        threads=threads,
    )


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def armtrain_cli(*args: object) -> list[str]:
    """Return the command line of the Python front end."""
    return [sys.executable, "-m", "armtrain", *map(str, args)]


def run_ok(command: list[str]) -> str:
    """Run a command that must succeed and return its output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def train_python(plan: Path, out: Path, *extra: object) -> str:
    """Train with the Python front end and return the digest of the saved weights."""
    run_ok(armtrain_cli("train", plan, "--data", DATA, "--epochs", 2, "--save", out, *extra))
    return digest(out)


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the plan of the residual net for up to four threads."""
    path = tmp_path_factory.mktemp("plan") / "residual.plan"
    residual_plan(threads=4).save(path)
    return path


@pytest.fixture(scope="module")
def reference_digest(plan_file: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the weights' digest of an uninterrupted one-thread run."""
    return train_python(plan_file, tmp_path_factory.mktemp("ref") / "w.safetensors", "--threads", 1)


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_do_not_change_a_bit(
    plan_file: Path, reference_digest: str, tmp_path: Path, threads: int
) -> None:
    """1 thread = 2 threads = 4 threads."""
    out = tmp_path / "w.safetensors"
    usable = min(threads, len(os.sched_getaffinity(0)))
    options = ["--epochs", "2", "--save", str(out), "--threads", str(usable)]
    run_ok([str(RUN), str(plan_file), "--data", DATA, *options])
    assert digest(out) == reference_digest
    trainer = at.Trainer(str(plan_file), seed=0, threads=threads)
    trainer.fit(DATA, epochs=2)
    trainer.save(str(out))
    assert digest(out) == reference_digest


def test_planned_threads_do_not_change_a_bit(reference_digest: str, tmp_path: Path) -> None:
    """A plan made for one thread gives the bits of a plan made for four."""
    path = tmp_path / "one.plan"
    residual_plan(threads=1).save(path)
    assert train_python(path, tmp_path / "w.safetensors") == reference_digest


class Deep(nn.Module):
    """Residual blocks with dropout, whose sums and normed values need not be kept."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(5))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(5))
        self.drop, self.relu = nn.Dropout(0.25), nn.ReLU()
        self.fc = nn.Linear(8 * 12 * 12, 10)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return logits."""
        x = self.stem(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = self.relu(norm(conv(x)) + self.drop(x))
        return self.fc(x.flatten(1))


@pytest.fixture(scope="module")
def deep_plans(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the plan of a deep net that makes values again, and one that keeps them."""
    paths, plans = [], []
    for free_recompute in (True, False):
        plan = at.plan(
            Deep(),
            input_shape=(3, 12, 12),
            batch_size=16,
            loss=nn.CrossEntropyLoss(),
            optimizer=optim.SGD(lr=0.05, momentum=0.9),
            threads=1,
            free_recompute=free_recompute,
        )
        paths.append(tmp_path_factory.mktemp("plan") / "deep.plan")
        plan.save(paths[-1])
        plans.append(plan)
    assert plans[1].recompute["ops"] == 0 < plans[0].recompute["ops"]
    assert plans[1].arena_bytes > plans[0].arena_bytes
    return paths


@pytest.fixture(scope="module")
def deep_digest(deep_plans: list[Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the weights' digest of a run that keeps all values."""
    return train_python(deep_plans[1], tmp_path_factory.mktemp("deep") / "w.safetensors")


def test_recompute_does_not_change_a_bit(
    deep_plans: list[Path], deep_digest: str, tmp_path: Path
) -> None:
    """Values made again or kept: the same weights from both front ends."""
    out = tmp_path / "w.safetensors"
    assert train_python(deep_plans[0], out) == deep_digest
    for plan in deep_plans:
        run_ok([str(RUN), str(plan), "--data", DATA, "--epochs", "2", "--save", str(out)])
        assert digest(out) == deep_digest


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["again_then_kept", "kept_then_again"])
def test_resuming_with_and_without_recompute(
    deep_plans: list[Path], deep_digest: str, tmp_path: Path, order: tuple[int, int]
) -> None:
    """Killed under one plan and ended under the other: the bits of an uninterrupted run."""
    first, second = (deep_plans[i] for i in order)
    out, moments = tmp_path / "w.safetensors", random.Random(order[0])
    options = ["--data", DATA, "--epochs", "2", "--save", str(out), "--resume"]
    options += ["--checkpoint", str(tmp_path / "run"), "--checkpoint-every", "3"]
    for plan in (first, second, first, second):
        with subprocess.Popen(
            [str(RUN), str(plan), *options], stdout=subprocess.DEVNULL
        ) as process:
            time.sleep(moments.uniform(0.01, 0.1))
            process.send_signal(signal.SIGKILL)
    run_ok([str(RUN), str(second), *options])
    assert digest(out) == deep_digest


def test_python_equals_armtrain_run(plan_file: Path, reference_digest: str, tmp_path: Path) -> None:
    """The static binary writes the same weights and the same losses."""
    out, log_c, log_py = tmp_path / "w.safetensors", tmp_path / "c.jsonl", tmp_path / "py.jsonl"
    options = ["--validation", DATA, "--epochs", "2", "--save", str(out), "--log", str(log_c)]
    run_ok([str(RUN), str(plan_file), "--data", DATA, *options])
    assert digest(out) == reference_digest
    train_python(plan_file, out, "--validation", DATA, "--log", log_py)
    rows = [[json.loads(line) for line in p.read_text().splitlines()] for p in (log_c, log_py)]
    for ours, theirs in zip(*rows, strict=True):
        for key in LOGGED:
            assert ours[key] == theirs[key], key


def kill_at_random(command: list[str], kills: int, longest: float, seed: int) -> Iterator[None]:
    """Start `command` again and again until SIGKILL has hit it `kills` times at random moments.

    Yields whenever it came to its end instead; moments then come a little earlier.
    """
    moments = random.Random(seed)
    while kills > 0:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=moments.uniform(0.0, longest))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            kills -= 1
            continue
        assert process.returncode == 0
        longest *= 0.9
        yield


@pytest.mark.parametrize(("front_end", "kills"), [("run", 40), ("python", 10)])
def test_kill_and_resume_equals_uninterrupted(
    plan_file: Path, tmp_path: Path, front_end: str, kills: int
) -> None:
    """SIGKILL at random moments, resumed each time: the last bits are those of a quiet run."""
    data = "random:samples=1000,seed=3"
    options = ["--data", data, "--epochs", "6", "--threads", "1", "--save"]
    head = [str(RUN), str(plan_file)] if front_end == "run" else armtrain_cli("train", plan_file)
    quiet, out, checkpoints = tmp_path / "quiet", tmp_path / "out", tmp_path / "checkpoints"
    started = time.monotonic()
    run_ok([str(RUN), str(plan_file), *options, str(quiet)])
    longest = 0.05 + (time.monotonic() - started) / 8 + (0.0 if front_end == "run" else 0.6)
    resumed = [*head, *options, str(out), "--checkpoint", str(checkpoints), "--resume"]
    resumed += ["--checkpoint-every", "3"]
    for _ in kill_at_random(resumed, kills, longest, seed=kills):
        assert digest(out) == digest(quiet)
        shutil.rmtree(checkpoints)
    run_ok(resumed)
    assert digest(out) == digest(quiet)


def test_ten_steps_equal_five_and_five(tmp_path: Path) -> None:
    """Dropout, shuffling, momentum and BN statistics survive a restart bit for bit."""
    plan = residual_plan()
    straight = at.Trainer(plan, seed=7)
    losses = straight.fit("random:samples=160,seed=1", epochs=2).train_loss
    first = at.Trainer(plan, seed=7)
    before = first.fit("random:samples=160,seed=1", epochs=1, checkpoint=str(tmp_path)).train_loss
    second = at.Trainer(plan, seed=7)
    after = second.fit(
        "random:samples=160,seed=1", epochs=2, checkpoint=str(tmp_path), resume=True
    ).train_loss
    assert [*before, *after][-2:] == losses
    for name, value in straight.state_dict().items():
        assert value.tobytes() == second.state_dict()[name].tobytes(), name


@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_poisoned_dead_bytes_change_nothing(clip_norm: float | None) -> None:
    """Filling every dead byte with NaN around each step leaves all losses and weights alone."""
    from armtrain._engine import Engine

    plan = residual_plan(clip_norm=clip_norm).to_bytes()
    rng = np.random.default_rng(0)
    x = rng.random((20, 16, 3, 12, 12), np.float32)
    y = rng.integers(0, 10, (20, 16)).astype(np.int32)
    losses = []
    engines = [Engine(plan, seed=1, poison=poison) for poison in (False, True)]
    for engine in engines:
        engine.initialize()
        losses.append([engine.train_step(x[i], y[i], 16) for i in range(20)])
    assert losses[0] == losses[1]
    weights = [np.empty((10, 288), np.float32) for _ in engines]
    for engine, out in zip(engines, weights, strict=True):
        engine.read("fc.weight", out)
    assert weights[0].tobytes() == weights[1].tobytes()


def test_trainable_tensors_change_and_frozen_ones_do_not() -> None:
    """It ran is not it trained."""
    net = Residual()
    net.conv1.requires_grad_(False)
    net.bn1.requires_grad_(False)
    net.bn1.eval()
    plan = at.plan(
        net,
        input_shape=(3, 12, 12),
        batch_size=16,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.1, weight_decay=0.01),
        threads=1,
    )
    trainer = at.Trainer(plan, seed=0)
    before = {k: v.copy() for k, v in trainer.state_dict().items()}
    trainer.fit("random:samples=64", epochs=1)
    for name, value in trainer.state_dict().items():
        frozen = name.startswith(("conv1.", "bn1."))
        assert (value.tobytes() == before[name].tobytes()) is frozen, name


@pytest.mark.own_process
def test_small_memory_limit_is_refused_before_the_first_step(tmp_path: Path) -> None:
    """An address-space limit below the arena: exit 3, the two numbers, no checkpoint."""
    path = tmp_path / "big.plan"
    run_ok(armtrain_cli("plan", "zoo:vgg16", "-o", path, "--batch", 32, "--threads", 1))
    command = [str(RUN), str(path), "--data", "random:", "--epochs", "1"]
    limited = ["prlimit", "--as=60000000", *command, "--checkpoint", str(tmp_path / "c")]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert str(at.Plan.load(path).arena_bytes) in done.stderr.replace(",", "")
    assert not (tmp_path / "c").exists() or not list((tmp_path / "c").iterdir())
