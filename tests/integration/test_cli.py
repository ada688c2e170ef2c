"""The command line end to end, in processes of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "build" / "armtrain-run"
MODEL = """
from armtrain import nn

def small():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10)
    )

def broken():
    return nn.Linear(3, 4)
"""


def armtrain(*args: object, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command line and check its exit code."""
    command = [sys.executable, "-m", "armtrain", *map(str, args)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


def json_lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    """Return the standard output, which must be JSON line by line."""
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model, its plan and trained weights."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "model.py").write_text(MODEL)
    plan = ["plan", "model.py:small", "-o", "small.plan", "--batch", 16, "--input-shape", "1x8x8"]
    armtrain(*plan, "--threads", 1, "--optimizer", "sgd:lr=0.05,momentum=0.9", cwd=folder)
    train = ["train", "small.plan", "--data", "digits", "--validation", "digits:test"]
    armtrain(*train, "--epochs", 2, "--save", "w.safetensors", "--log", "log.jsonl", cwd=folder)
    return folder


def test_plan_json(work: Path) -> None:
    args = ["plan", "zoo:lenet5", "-o", "l.plan", "--batch", 8, "--threads", 1, "--json"]
    (told,) = json_lines(armtrain(*args, cwd=work))
    for key in (
        "arena_bytes",
        "lower_bound_bytes",
        "weights_bytes",
        "optimizer_bytes",
        "gradients_peak_bytes",
        "activations_peak_bytes",
        "workspace_bytes",
        "input_bytes",
        "budget_bytes",
        "padding_bytes",
        "proved_minimum_bytes",
        "unbudgeted_bytes",
        "floor_bytes",
    ):
        assert key in told
    assert set(told["swap"]) == {"file_bytes", "in_bytes_per_step", "out_bytes_per_step"}
    assert set(told["recompute"]) == {"ops", "extra_flops_fraction"}
    assert told["predicted"]["step_seconds"] > 0.0
    assert told["predicted"]["basis"] == "assumed"


def test_plan_without_recompute(work: Path) -> None:
    args = ["plan", "zoo:resnet18", "-o", "r.plan", "--batch", 2, "--threads", 1, "--json"]
    (less,) = json_lines(armtrain(*args, cwd=work))
    (more,) = json_lines(armtrain(*args, "--no-free-recompute", cwd=work))
    assert less["recompute"]["ops"] > 0 == more["recompute"]["ops"]
    assert 0.0 < less["recompute"]["extra_flops_fraction"] < 0.01
    assert less["arena_bytes"] < more["arena_bytes"]
    assert less["predicted"]["step_seconds"] > more["predicted"]["step_seconds"]
    (told,) = json_lines(armtrain("inspect", "r.plan", "--json", cwd=work))
    assert told["predicted"] == more["predicted"]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["zoo:nothing", "--batch", "1"], 2, "lenet5"),
        (["what", "--batch", "1"], 2, "zoo:NAME or file.py:callable"),
        (["none.py:f", "--batch", "1"], 2, "no file none.py"),
        (["model.py:f", "--batch", "1"], 2, "it has broken, small"),
        (["model.py:small", "--batch", "1"], 2, "--input-shape"),
        (["model.py:broken", "--batch", "1", "--input-shape", "1x8x8"], 1, ""),
        (
            ["zoo:lenet5", "--batch", "1", "--loss", "hinge"],
            2,
            "cross_entropy, nll, bce_with_logits, mse",
        ),
        (["zoo:lenet5", "--batch", "1", "--optimizer", "lion"], 2, "sgd, adam"),
        (["zoo:lenet5", "--batch", "1", "--optimizer", "sgd:lr"], 2, "OPTION=VALUE"),
        (["zoo:lenet5", "--batch", "1", "--optimizer", "sgd:lr=x"], 2, "not a number"),
        (["zoo:lenet5", "--batch", "1", "--optimizer", "sgd:speed=1"], 2, "speed"),
        (["zoo:lenet5", "--batch", "32", "--budget", "100 KiB"], 3, "102400"),
        (["zoo:lenet5", "--batch", "1", "--board", "toaster"], 2, "toaster"),
        (["zoo:lenet5", "--batch", "1", "--train-only", "zzz*"], 2, "zzz"),
    ],
)
def test_plan_refusals(work: Path, args: list[str], code: int, message: str) -> None:
    done = armtrain("plan", *args, "-o", "never.plan", cwd=work, code=code)
    assert message in done.stderr.replace(",", "").replace(" B", "") or message in done.stderr
    assert not (work / "never.plan").exists()


def test_inspect_and_check(work: Path) -> None:
    pictures = ["--svg", "p.svg", "--html", "p.html", "--text", "p.txt"]
    (told,) = json_lines(armtrain("inspect", "small.plan", "--json", *pictures, cwd=work))
    assert {"name", "role", "dtype", "shape", "bytes", "offset", "first", "last"} <= set(
        told["tensors"][0]
    )
    assert told["steps"]
    assert (work / "p.svg").read_text().startswith("<svg")
    assert "<html" in (work / "p.html").read_text()
    assert "0.weight" in (work / "p.txt").read_text()
    assert "arena" in armtrain("inspect", "small.plan", cwd=work).stdout
    assert json_lines(armtrain("check", "small.plan", "--json", cwd=work))[0]["ok"] is True
    damaged = bytearray((work / "small.plan").read_bytes())
    damaged[700] ^= 1
    (work / "damaged.plan").write_bytes(damaged)
    assert armtrain("check", "damaged.plan", cwd=work, code=1).stderr.count("\n") == 1
    train = ["train", "damaged.plan", "--data", "digits", "--epochs", 1]
    armtrain(*train, cwd=work, code=1)


def test_log_and_evaluation_agree(work: Path) -> None:
    log = [json.loads(line) for line in (work / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in log] == [1, 2]
    args = ["small.plan", "--weights", "w.safetensors", "--data", "digits:test", "--json"]
    (told,) = json_lines(armtrain("evaluate", *args, cwd=work))
    assert told["accuracy"] == log[-1]["val_accuracy"]
    assert told["loss"] == log[-1]["val_loss"]
    (predicted,) = json_lines(armtrain("predict", *args, cwd=work))
    assert predicted["samples"] == len(predicted["labels"]) == 359
    armtrain("predict", *args, "-o", "out.npz", cwd=work)
    with np.load(work / "out.npz") as data:
        assert data["y"].argmax(axis=1).tolist() == predicted["labels"]
    lines = armtrain("predict", *args[:-1], cwd=work).stdout.split()
    assert list(map(int, lines)) == predicted["labels"]


def test_train_json_is_only_json(work: Path) -> None:
    args = ["train", "small.plan", "--data", "random:samples=3", "--epochs", 2, "--json"]
    done = armtrain(*args, cwd=work)
    first, second, last = json_lines(done)
    assert [first["epoch"], second["epoch"]] == [1, 2]
    assert last["train_loss"] == second["train_loss"]
    assert last["arena_bytes"] == first["arena_bytes"]
    assert "3 samples are fewer than the planned batch of 16" in done.stderr


def test_same_weights_as_armtrain_run_on_converted_digits(work: Path) -> None:
    if not RUN.exists():
        pytest.skip("build/armtrain-run is not built")
    armtrain("convert-data", "digits", "-o", "digits.npz", cwd=work)
    args = ["small.plan", "--data", "npz:digits.npz", "--epochs", "2", "--seed", "0"]
    subprocess.run([str(RUN), *args, "--save", "c.safetensors"], cwd=work, check=True, timeout=120)
    assert (work / "c.safetensors").read_bytes() == (work / "w.safetensors").read_bytes()


def test_interrupt_leaves_a_checkpoint_and_exits_130(work: Path, tmp_path: Path) -> None:
    args = ["train", "small.plan", "--data", "digits", "--epochs", "100000"]
    command = [sys.executable, "-m", "armtrain", *args, "--checkpoint", str(tmp_path / "c")]
    process = subprocess.Popen(
        command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("c/*.ckpt")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "continue with --resume" in out
    again = armtrain(*args, "--checkpoint", tmp_path / "c", cwd=work, code=4)
    assert "continue it with --resume, or" in again.stderr
    other = armtrain(
        *args, "--checkpoint", tmp_path / "c", "--resume", "--seed", 1, cwd=work, code=1
    )
    assert "use --seed 0" in other.stderr
    resumed = ["train", "small.plan", "--data", "digits", "--epochs", 1, "--resume"]
    done = armtrain(*resumed, "--checkpoint", tmp_path / "c", cwd=work)
    assert "already finished" in done.stdout


def test_not_finite_exits_1(work: Path) -> None:
    plan = ["plan", "model.py:small", "-o", "hot.plan", "--batch", 16, "--input-shape", "1x8x8"]
    armtrain(*plan, "--optimizer", "sgd:lr=1e30", cwd=work)
    train = ["train", "hot.plan", "--data", "digits", "--epochs", 2, "--save", "hot.safetensors"]
    done = armtrain(*train, cwd=work, code=1)
    assert "learning rate" in done.stderr
    assert not (work / "hot.safetensors").exists()


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["train", "none.plan", "--data", "digits", "--epochs", "1"], 4, "none.plan"),
        (["train", "small.plan", "--data", "npz:none.npz", "--epochs", "1"], 4, "none.npz"),
        (["train", "small.plan", "--data", "digits", "--epochs", "1", "--threads", "7"], 1, "7"),
        (["train", "small.plan", "--data", "digits", "--epochs", "1", "--weights", "no"], 4, "no"),
        (["evaluate", "small.plan", "--weights", "small.plan", "--data", "digits"], 4, ""),
    ],
)
def test_run_refusals(work: Path, args: list[str], code: int, message: str) -> None:
    assert message in armtrain(*args, cwd=work, code=code).stderr


def test_doctor(work: Path) -> None:
    (told,) = json_lines(armtrain("doctor", "--json", cwd=work))
    assert told["kernel_level"] in told["kernel_levels"]
    for key in (
        "cpu_features",
        "usable_cpus",
        "memory_available_bytes",
        "cgroup_limit_bytes",
        "page_bytes",
        "userland_bits",
        "storage_free_bytes",
        "warnings",
        "board",
        "cores",
        "isa",
        "page_size",
        "kernels",
        "memory",
        "storage",
    ):
        assert key in told
    assert "kernel level" in armtrain("doctor", cwd=work).stdout


def test_bench(work: Path) -> None:
    (told,) = json_lines(armtrain("bench", "small.plan", "--repeat", 3, "--json", cwd=work))
    assert told["predicted"] is None
    assert {row["what"] for row in told["rows"]} >= {"training step", "prediction"}
    assert all(row["median_seconds"] > 0 for row in told["rows"])
    assert "median" in armtrain("bench", "small.plan", "--repeat", 1, cwd=work).stdout


def test_demo_reaches_its_accuracy_inside_512_kib(work: Path) -> None:
    done = armtrain("demo", "digits", "--json", cwd=work)
    last = json_lines(done)[-1]
    assert last["test_accuracy"] >= 0.97
    assert last["lower_bound_bytes"] <= last["arena_bytes"] <= 512 * 1024
    assert last["peak_rss_bytes"] > last["growth_bytes"] > 0
    assert 0 <= last["arena_resident_bytes"] - last["arena_bytes"] < os.sysconf("SC_PAGESIZE")


def test_demo_prints_the_plan_first(work: Path) -> None:
    out = armtrain("demo", "--epochs", 1, cwd=work).stdout
    assert out.index("arena") < out.index("epoch 1/1") < out.index("predicted")
    assert "test accuracy" in out
    (row,) = (line for line in out.splitlines() if line.startswith("arena (measured"))
    planned, measured = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) B", row))
    assert 0 <= measured - planned < os.sysconf("SC_PAGESIZE")


def test_readers_that_leave_early_are_no_error(work: Path) -> None:
    command = f"{sys.executable} -m armtrain inspect small.plan | head -1"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0
    assert done.stderr == ""
