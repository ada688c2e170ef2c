"""The wheels in Debian systems on emulated processors: the same plans, trainings and checkpoints.

The Python tests themselves are run there by scripts/emulate_python.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scripts.emulate_python import Installed
from scripts.sysroot import SYSROOTS
from tests.emulated.runs import Run, output_of, run_training
from tests.emulated.test_training import train

pytestmark = pytest.mark.emulated

SYSTEMS = [Installed(s) for s in SYSROOTS]
NAMES = [s.name for s in SYSROOTS]
PLACES = [(i, m) for i in SYSTEMS for m in i.sysroot.models]
PLACE_NAMES = [f"{i.sysroot.name}-{m}" for i, m in PLACES]
POLL_SECONDS = 0.01
# Plans that meet every stage of the compiler; printed as name and checksum.
PLANS = """
import hashlib
import json
from armtrain.cli.plan import compile_model

def digest(model, **options):
    plan = compile_model(model, **options)
    return hashlib.sha256(plan.to_bytes()).hexdigest()

print(json.dumps({
    "lenet5": digest("zoo:lenet5", batch_size=32, budget="16 MiB"),
    "mlp": digest("zoo:mlp", batch_size=8, optimizer="adam:lr=0.001", train_only="3.*"),
    "resnet18": digest("zoo:resnet18", batch_size=4, optimizer="sgd:lr=0.1,momentum=0.9",
                       clip_norm=0.5, board="odroid-n2-plus", storage="emmc-hs200"),
}))
"""
# The state of a run and its tensors, after one step and a jump of the counter.
WRITE = """
import sys
import numpy as np
from armtrain._engine import Engine

engine = Engine(open(sys.argv[1], "rb").read(), seed=3)
engine.initialize()
x = np.linspace(-1, 1, 16 * 64, dtype=np.float32)
engine.train_step(x, np.arange(16, dtype=np.int32) % 10, 16)
engine.set_state(step=3_000_000_000, epoch=2_000_000_000, loss_sum=0.1, n_train=5_000_000_000)
engine.checkpoint_save(sys.argv[2], 2)
"""
READ = """
import json
import sys
from armtrain._engine import Engine

engine = Engine(open(sys.argv[1], "rb").read(), seed=4)
engine.checkpoint_load(sys.argv[2])
engine.save_safetensors(sys.argv[3])
print(json.dumps(engine.get_state()))
"""


@cache
def python_of(installed: Installed | None, model: str = "") -> str:
    """Return the Python of a system on a processor model, of this machine for None."""
    if installed is None:
        return sys.executable
    if missing := installed.missing():
        pytest.skip("; ".join(missing))
    return str(installed.install(model or installed.sysroot.models[0]))


def pip_takes(installed: Installed, folder: Path, platform: str, *options: str) -> bool:
    """Say whether the system's pip installs its wheel on a machine that Python calls `platform`."""
    python_of(installed)
    command = [*installed.emulator(installed.sysroot.models[0]), str(installed.sysroot.interpreter)]
    command += ["-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--no-index"]
    command += ["--no-compile", "--target", str(folder), *options, str(installed.wheel())]
    environment = os.environ | {"PIP_ROOT_USER_ACTION": "ignore", "_PYTHON_HOST_PLATFORM": platform}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0 or "not a supported wheel on this platform" in done.stderr
    return (folder / "armtrain" / "_engine.abi3.so").is_file()


ARMHF = [i for i in SYSTEMS if i.sysroot.architecture == "armhf"]


@pytest.mark.parametrize("installed", ARMHF, ids=[i.sysroot.name for i in ARMHF])
def test_pip_takes_the_wheel_on_a_machine_called_armv8l(
    installed: Installed, tmp_path: Path
) -> None:
    """Debian 12's pip only in the ways of docs/cross.md, Debian 13's by itself."""
    old = installed.sysroot.suite == "bookworm"
    assert pip_takes(installed, tmp_path / "plain", "linux-armv8l") != old
    # What `setarch linux64` makes the kernel say.
    assert pip_takes(installed, tmp_path / "setarch", "linux-aarch64")
    named = ("--only-binary=:all:", "--platform", "manylinux_2_34_armv7l")
    assert pip_takes(installed, tmp_path / "platform", "linux-armv8l", *named)


@cache
def train_python(plan: Path, installed: Installed, model: str) -> Run:
    """Train with the installed package."""
    command = [python_of(installed, model), "-m", "armtrain", "train"]
    return run_training(command, f"python-{installed.sysroot.name}-{model}", plan, threads=2)


@pytest.mark.parametrize("installed", SYSTEMS, ids=NAMES)
def test_plan_19_plans_have_the_same_bytes_everywhere(installed: Installed) -> None:
    """Made on this machine and on ARM, by other versions, under other hash seeds."""
    seed = str(1 + SYSTEMS.index(installed))
    there = json.loads(output_of([python_of(installed), "-c", PLANS], PYTHONHASHSEED=seed))
    assert there == json.loads(output_of([sys.executable, "-c", PLANS], PYTHONHASHSEED="0"))


@pytest.mark.parametrize(("installed", "model"), PLACES, ids=PLACE_NAMES)
def test_python_trains_the_bits_of_armtrain_run(
    plan: Path, installed: Installed, model: str
) -> None:
    """On every system and model; so systems and models of one level agree among themselves."""
    assert train_python(plan, installed, model) == train(plan, installed.target, model)


@pytest.mark.parametrize("installed", SYSTEMS, ids=NAMES)
def test_losses_agree_with_this_machine(plan: Path, installed: Installed) -> None:
    """Within 1e-5 at the first step and 1e-4 at the last, where rounding has added up."""
    here = train(plan, None, "any")
    there = train_python(plan, installed, installed.sysroot.models[0])
    assert there.losses[0] == pytest.approx(here.losses[0], rel=1e-5)
    assert there.losses[-1] == pytest.approx(here.losses[-1], rel=1e-4)


def killed_after_a_checkpoint(command: list[str], checkpoints: Path) -> None:
    """Start a training and kill it when it has written one more checkpoint."""
    while True:
        before = {p.name for p in checkpoints.glob("step-*.ckpt")}
        process = subprocess.Popen(
            command,
            cwd=checkpoints.parent,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None:
            if {p.name for p in checkpoints.glob("step-*.ckpt")} - before:
                process.send_signal(signal.SIGKILL)
            time.sleep(POLL_SECONDS)
        if process.returncode == -signal.SIGKILL:
            return
        assert process.returncode == 0, command
        shutil.rmtree(checkpoints)  # it was faster than we: again


@pytest.mark.parametrize("installed", SYSTEMS, ids=NAMES)
def test_kill_and_resume_equals_uninterrupted(
    plan: Path, installed: Installed, tmp_path: Path
) -> None:
    """Killed twice with SIGKILL, then finished: the weights of a quiet run of armtrain-run."""
    model = installed.sysroot.models[0]
    quiet, out = tmp_path / "quiet.safetensors", tmp_path / "out.safetensors"
    options = ["--data", "random:samples=160,seed=3", "--epochs", "20", "--seed", "1"]
    head = [python_of(installed, model), "-m", "armtrain", "train", str(plan), *options]
    checkpoints = tmp_path / "checkpoints"
    resumed = [*head, "--save", str(out), "--checkpoint", str(checkpoints), "--resume"]
    resumed += ["--checkpoint-every", "7"]
    for _ in range(2):
        killed_after_a_checkpoint(resumed, checkpoints)
    output_of(resumed)
    installed.target.make("run")
    runner = str(installed.armtrain_run(model))
    output_of([runner, str(plan), *options, "--save", str(quiet)])
    assert out.read_bytes() == quiet.read_bytes()


def test_ckpt_12_a_checkpoint_of_32_bits_is_read_everywhere(plan: Path, tmp_path: Path) -> None:
    """Counters beyond 31 and 32 bits, and every tensor, survive the change of processor."""
    checkpoints = tmp_path / "c"
    writer = next(i for i in SYSTEMS if i.sysroot.architecture == "armhf")
    output_of([python_of(writer), "-c", WRITE, str(plan), str(checkpoints)])
    assert [p.name for p in checkpoints.iterdir()] == ["step-003000000000.ckpt"]
    seen: dict[str, Any] = {}
    for reader in (None, *SYSTEMS):
        weights = tmp_path / "w.safetensors"
        command = [python_of(reader), "-c", READ, str(plan), str(checkpoints), str(weights)]
        state = json.loads(output_of(command))
        assert (state["step"], state["n_train"]) == (3_000_000_000, 5_000_000_000)
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        assert (state, digest) == seen.setdefault("first", (state, digest))


@pytest.mark.parametrize(("installed", "model"), PLACES, ids=PLACE_NAMES)
def test_arch_01_doctor_names_the_kernels(installed: Installed, model: str) -> None:
    """No illegal instruction on the way, and what is reported is what was chosen."""
    command = [python_of(installed, model), "-m", "armtrain", "doctor", "--json"]
    facts = json.loads(output_of(command))
    assert facts["kernels"]["level"] == installed.target.levels[model]
    assert facts["userland_bits"] == (64 if installed.sysroot.architecture == "arm64" else 32)
    assert facts["isa"].startswith({32: "armv7l+neon", 64: "aarch64+neon"}[facts["userland_bits"]])


def test_bytecode_is_kept_out_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled once and not at every start, even where this machine's Python keeps none."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for installed in SYSTEMS:
        code = "import armtrain.memory; print(armtrain.memory.__cached__)"
        kept = Path(output_of([python_of(installed), "-c", code]).strip())
        assert kept.is_file()
        assert kept.is_relative_to(installed.folder / "bytecode")


@pytest.mark.parametrize("installed", SYSTEMS, ids=NAMES)
def test_bld_07_the_system_is_left_alone(installed: Installed) -> None:
    """Installing into a folder of its own changes nothing in a system that manages its Python."""
    python_of(installed)
    system = installed.sysroot.path / "usr" / "lib"
    assert list(system.glob("python3*/EXTERNALLY-MANAGED"))
    assert not list(system.glob("python3*/**/armtrain*"))
