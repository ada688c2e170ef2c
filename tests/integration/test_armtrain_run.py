"""`armtrain-run`: the same training as the Python front end, without Python.

Weights and losses are compared by their bits. The data readers have their own tests in C
(tests/c/test_readers.c); here real files made by NumPy are read.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "build" / "armtrain-run"
SAMPLES, BATCH = 50, 8  # six whole batches and one of two


class Net(nn.Module):
    """A small classifier whose training depends on order, batch norm and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.2)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(4 * 6 * 6, 5)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Return logits."""
        return self.fc(self.drop(self.flatten(self.bn(self.conv(x)))))


class Work:
    """A directory with a plan and data, and the programs run in it."""

    def __init__(self, directory: Path) -> None:
        self.dir = directory

    def run(self, *args: object, code: int = 0) -> str:
        """Run armtrain-run; it must end with `code`. Return all it said."""
        done = subprocess.run(
            [str(RUN), *map(str, args)],
            cwd=self.dir,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, f"{args}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout if code == 0 else done.stdout + done.stderr

    def bytes(self, name: str) -> bytes:
        """Return a file's bytes."""
        return (self.dir / name).read_bytes()

    def checkpoints(self) -> set[str]:
        """Return the names of the checkpoints in c."""
        return {path.name for path in (self.dir / "c").glob("step-*.ckpt")}

    def log(self, name: str) -> list[dict[str, Any]]:
        """Return the objects of a log."""
        return [json.loads(line) for line in self.bytes(name).splitlines()]


def write_idx(path: Path, code: int, array: np.ndarray) -> None:
    """Write an IDX file."""
    dims = b"".join(n.to_bytes(4, "big") for n in array.shape)
    big = array.astype(array.dtype.newbyteorder(">"))
    path.write_bytes(bytes([0, 0, code, array.ndim]) + dims + big.tobytes())


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with plans and data in every form."""
    folder = tmp_path_factory.mktemp("run")
    plan = at.plan(
        Net(),
        input_shape=(1, 8, 8),
        batch_size=BATCH,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.05, momentum=0.9),
        threads=2,
    )
    plan.save(folder / "net.plan")
    at.plan(
        Net(),
        input_shape=(1, 8, 8),
        batch_size=BATCH,
        loss=nn.CrossEntropyLoss((0.5, 1, 2, 0.1, 3), ignore_index=1, label_smoothing=0.1),
        optimizer=optim.SGD(lr=0.05, momentum=0.9),
    ).save(folder / "weighted.plan")
    for name, loss in (
        ("mse", nn.MSELoss()),
        ("bce", nn.BCEWithLogitsLoss(pos_weight=(2, 3, 0.5))),
        ("soft", nn.CrossEntropyLoss(label_smoothing=0.1, probabilities=True)),
    ):
        at.plan(
            nn.Sequential(nn.Flatten(), nn.Linear(64, 3)),
            input_shape=(1, 8, 8),
            batch_size=BATCH,
            loss=loss,
            optimizer=optim.Adam(lr=0.01),
        ).save(folder / f"{name}.plan")
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (SAMPLES, 8, 8)).astype(np.uint8)
    y = rng.integers(0, 5, SAMPLES)
    scaled = x.astype(np.float32) / np.float32(255)
    np.savez(folder / "u8.npz", x=x, y=y)
    np.savez(folder / "f32.npz", x=scaled[:, None], y=y.astype(np.uint8))
    np.savez(folder / "f64.npz", x=scaled.astype(np.float64), y=y.astype(np.int16))
    np.savez_compressed(folder / "packed.npz", x=x, y=y)
    np.savez(folder / "targets.npz", x=x, y=rng.random((SAMPLES, 3)).astype(np.float32))
    np.savez(folder / "from1.npz", x=x, y=y + 1)
    spoilt = scaled.copy()
    spoilt[17, 2, 3] = np.nan
    np.savez(folder / "nan.npz", x=spoilt, y=y)
    write_idx(folder / "images", 0x08, x)
    write_idx(folder / "labels", 0x08, y.astype(np.uint8))
    for name in ("images", "labels"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    return folder


@pytest.fixture
def work(shared: Path, tmp_path: Path) -> Work:
    """Return a fresh directory with the shared files."""
    for path in shared.iterdir():
        (tmp_path / path.name).hardlink_to(path)
    return Work(tmp_path)


def python_training(work: Work, plan: str, data: str, epochs: int, **options: Any) -> bytes:
    """Train with the Python front end and return the bytes of the saved weights."""
    trainer = at.Trainer(work.dir / plan, seed=options.pop("seed", 0))
    spec = re.sub(r"(npz:|idx:|,)(?=[a-z])", lambda m: f"{m[1]}{work.dir}/", data)
    trainer.fit(spec if not data.startswith("random:") else data, epochs, progress=False, **options)
    trainer.save(work.dir / "python.safetensors")
    return work.bytes("python.safetensors")


@pytest.mark.parametrize(
    ("plan", "data"),
    [
        ("net.plan", "npz:u8.npz"),
        ("net.plan", "npz:f32.npz"),
        ("net.plan", "npz:f64.npz"),
        ("net.plan", "idx:images,labels"),
        ("net.plan", "random:"),
        ("net.plan", "random:samples=21,seed=7"),
        ("mse.plan", "npz:targets.npz"),
        ("mse.plan", "random:samples=9"),
        ("bce.plan", "npz:targets.npz"),
        ("soft.plan", "npz:targets.npz"),
        ("weighted.plan", "npz:u8.npz"),
        ("weighted.plan", "random:samples=21,seed=7"),
    ],
)
def test_same_weights_and_losses_as_python(work: Work, plan: str, data: str) -> None:
    options = ["--validation", data, "--epochs", 3, "--seed", 4, "--log", "c.jsonl"]
    work.run(plan, "--data", data, *options, "--save", "c.safetensors")
    log = work.dir / "py.jsonl"
    path_free = data if data.startswith("random:") else None
    validation = path_free or re.sub(r"(npz:|idx:|,)", lambda m: f"{m[1]}{work.dir}/", data)
    want = python_training(work, plan, data, 3, seed=4, log=log, validation=validation)
    assert work.bytes("c.safetensors") == want
    rows = zip(work.log("c.jsonl"), work.log("py.jsonl"), strict=True)
    for ours, theirs in rows:
        assert list(ours) == list(theirs)
        for key in ("epoch", "kernel_level", "train_loss", "val_loss", "val_accuracy"):
            assert ours[key] == theirs[key], key
        assert ours["arena_bytes"] == theirs["arena_bytes"]


def test_pixel_forms_give_the_same_weights(work: Work) -> None:
    results = set()
    for data in ("npz:u8.npz", "npz:f32.npz", "npz:f64.npz", "idx:images,labels"):
        work.run("net.plan", "--data", data, "--epochs", 1, "--save", "w")
        results.add(work.bytes("w"))
    assert len(results) == 1


@pytest.mark.parametrize("data", ["idx:images.gz,labels.gz", "npz:packed.npz"])
def test_compressed_data_are_refused_with_the_command(work: Work, data: str) -> None:
    said = work.run("net.plan", "--data", data, "--epochs", 1, code=1)
    command = re.search(r"`armtrain (convert-data [^`]*)`", said)
    assert command, said
    python = [sys.executable, "-m", "armtrain", *command[1].split()]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(python, cwd=work.dir, check=True, capture_output=True, env=environment)
    assert "--data npz:data.npz" in said
    work.run("net.plan", "--data", "npz:data.npz", "--epochs", 1, "--save", "converted")
    work.run("net.plan", "--data", "npz:u8.npz", "--epochs", 1, "--save", "direct")
    assert work.bytes("converted") == work.bytes("direct")


def test_safetensors_equal_those_of_the_library(work: Work) -> None:
    library = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    work.run("net.plan", "--data", "random:", "--epochs", 1, "--save", "ours")
    tensors = library.load_file(work.dir / "ours")
    assert tensors["conv.weight"].shape == (4, 1, 3, 3)
    library.save_file(tensors, work.dir / "theirs")
    assert work.bytes("ours") == work.bytes("theirs")
    extra = tensors | {"bn.num_batches_tracked": np.array(7, np.int64)}
    library.save_file(extra, work.dir / "theirs", metadata={"format": "pt"})
    options = ["--epochs", 0, "--weights", "theirs", "--save", "again"]
    work.run("net.plan", "--data", "random:", *options)
    assert work.bytes("again") == work.bytes("ours")
    del extra["fc.bias"]
    library.save_file(extra, work.dir / "theirs")
    said = work.run("net.plan", "--data", "random:", *options, code=1)
    assert "lacks 'fc.bias'" in said


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ([], 2, "PLAN is missing"),
        (["net.plan", "--data", "random:"], 2, "--epochs is missing"),
        (["net.plan", "--data", "digits", "--epochs", 1], 2, "convert-data"),
        (["net.plan", "--data", "random:", "--epochs", 1, "--resume"], 2, "--checkpoint DIR"),
        (["none", "--data", "random:", "--epochs", 1], 4, "none: No such file"),
        (["u8.npz", "--data", "random:", "--epochs", 1], 1, "armtrain plan"),
        (["net.plan", "--data", "npz:from1.npz", "--epochs", 1], 1, "labels look 1-based"),
        (["net.plan", "--data", "npz:none.npz", "--epochs", 1], 4, "none.npz"),
        (["net.plan", "--data", "npz:nan.npz", "--epochs", 1], 1, "nan.npz:x: row 17"),
        (
            ["net.plan", "--data", "npz:nan.npz", "--epochs", 1, "--no-preflight"],
            1,
            "of epoch 1; checkpoints",
        ),
        (["net.plan", "--data", "npz:targets.npz", "--epochs", 1], 1, "labels of type float32"),
        (["mse.plan", "--data", "npz:u8.npz", "--epochs", 1], 1, "one target has shape"),
        (["net.plan", "--data", "random:", "--epochs", 1, "--threads", 9], 1, "2"),
        (["net.plan", "--data", "random:", "--epochs", 1, "--save", "no/dir"], 4, "create it"),
        (["net.plan", "--data", "random:", "--epochs", 1, "--weights", "u8.npz"], 4, "header"),
    ],
)
def test_exit_codes_and_messages(work: Work, args: list[object], code: int, message: str) -> None:
    assert message in work.run(*args, code=code)


GONE = 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'


@pytest.mark.parametrize("front", ["run", "python"])
@pytest.mark.parametrize(
    "args", ["--save w", "--log l", "--checkpoint c", "--weights w", "--validation npz:v"]
)
def test_a_deleted_current_directory_is_named(work: Work, front: str, args: str) -> None:
    program = [str(RUN)] if front == "run" else [sys.executable, "-m", "armtrain", "train"]
    command = [*program, str(work.dir / "net.plan"), "--data", "random:", "--epochs", "1"]
    done = subprocess.run(
        ["sh", "-c", GONE, "sh", *command, *args.split()],
        cwd=work.dir,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "the current directory was deleted: change to one that exists" in done.stderr
    assert args[-1] in done.stderr.partition("cannot")[2].partition(";")[0]


def test_json_alone_on_standard_output(work: Work) -> None:
    said = work.run("net.plan", "--data", "random:", "--epochs", 2, "--json", "--save", 'a"b')
    rows = [json.loads(line) for line in said.splitlines()]
    assert [row.get("epoch") for row in rows] == [1, 2, None]
    assert rows[2]["epochs"] == 2
    assert rows[2]["saved"] == 'a"b'
    assert rows[2]["train_loss"] == rows[1]["train_loss"]
    assert work.run("net.plan", "--data", "random:", "--epochs", 1, "--quiet") == ""


@pytest.mark.own_process
def test_small_on_disk_and_in_memory(work: Work) -> None:
    assert RUN.stat().st_size <= 1.5 * 2**20
    options = ["--epochs", 1, "--log", "log", "--checkpoint", "c", "--save", "w"]
    work.run("net.plan", "--data", "npz:u8.npz", "--validation", "idx:images,labels", *options)
    row = work.log("log")[0]
    assert row["peak_rss_bytes"] - row["arena_bytes"] <= 3 * 2**20


def test_a_used_directory_needs_resume(work: Work) -> None:
    head = ["net.plan", "--data", "npz:u8.npz", "--checkpoint", "c", "--epochs"]
    work.run(*head, 1)
    assert "--resume" in work.run(*head, 1, code=4)
    assert "already finished" in work.run(*head, 1, "--resume")
    assert "use --seed 0" in work.run(*head, 2, "--resume", "--seed", 1, code=1)
    other = ["net.plan", "--data", "random:samples=51", "--checkpoint", "c", "--epochs", 2]
    assert "50 training samples, the data have 51" in work.run(*other, "--resume", code=1)
    for path in (work.dir / "c").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert "no usable checkpoint" in work.run(*head, 2, "--resume", code=4)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_leaves_a_checkpoint(work: Work, number: signal.Signals) -> None:
    data = "random:samples=40000"
    head = ["nice", "-n", "19"]  # so that the test is there before the run's end
    head += [str(RUN), "net.plan", "--data", data, "--checkpoint", "c", "--resume"]
    head += ["--checkpoint-every", "50", "--validation", "random:", "--log", "log", "--save", "w"]
    head += ["--epochs"]
    stopped = 0
    for _ in range(3):
        before = work.checkpoints()
        process = subprocess.Popen([*head, "4"], cwd=work.dir, stdout=subprocess.PIPE)
        while process.poll() is None and not work.checkpoints() - before:
            time.sleep(0.001)
        process.send_signal(number)
        said = process.communicate(timeout=60)[0].decode()
        stopped += process.returncode == 128 + number
        if process.returncode == 0:
            break
        if process.returncode == 128 + number:
            assert "stopped; a checkpoint is in c" in said
    assert stopped >= 1
    subprocess.run([*head, "4"], cwd=work.dir, check=True, capture_output=True)
    options = ["--epochs", 4, "--validation", "random:", "--log", "quiet"]
    work.run("net.plan", "--data", data, *options, "--save", "q")
    assert work.bytes("w") == work.bytes("q")
    keys = ("epoch", "train_loss", "val_loss", "val_accuracy")
    rows = [[[row[k] for k in keys] for row in work.log(name)] for name in ("log", "quiet")]
    assert rows[0] == rows[1]


def test_a_signal_ends_json_with_an_error(work: Work) -> None:
    head = [str(RUN), "net.plan", "--data", "random:", "--epochs", "2000000000", "--json"]
    with subprocess.Popen(
        head, cwd=work.dir, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        last = process.stdout.read().splitlines()[-1]
    assert json.loads(last) == {"error": "interrupted", "exit_code": 128 + signal.SIGTERM}
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("first", ["run", "python"])
def test_checkpoints_are_exchanged_with_python(work: Work, first: str) -> None:
    head = ["net.plan", "--data", "npz:u8.npz", "--checkpoint", "c", "--resume", "--epochs"]
    if first == "run":
        work.run(*head, 1)
        checkpoint = {"checkpoint": work.dir / "c", "resume": True}
        last = python_training(work, "net.plan", "npz:u8.npz", 3, **checkpoint)
    else:
        python_training(work, "net.plan", "npz:u8.npz", 1, checkpoint=work.dir / "c")
        work.run(*head, 3, "--save", "w")
        last = work.bytes("w")
    assert last == python_training(work, "net.plan", "npz:u8.npz", 3)


@pytest.mark.own_process
def test_order_of_system_calls(work: Work) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed; tests/c/test_checkpoint.c checks the order, too")
    names = "openat,write,pwrite64,fsync,renameat,renameat2,unlink,unlinkat"
    command = [strace, "-f", "-o", "trace", "-e", f"trace={names}", str(RUN), "net.plan"]
    command += ["--data", "random:samples=8", "--epochs", "1", "--checkpoint", "c", "--quiet"]
    done = subprocess.run(command, cwd=work.dir, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "ptrace" in done.stderr:
        pytest.skip(f"tracing is not allowed here: {done.stderr.strip()}")
    lines = work.bytes("trace").decode().splitlines()
    start = next(i for i, line in enumerate(lines) if "O_EXCL" in line)
    temporary = re.search(r'openat\((\d+), "(\.step-[^"]*\.tmp)".* = (\d+)', lines[start])
    assert temporary, lines[start]
    folder, name, file = temporary.groups()
    order = [
        kind
        for line in lines[start + 1 :]
        for kind, pattern in (
            ("write", rf"write\({file}, "),
            ("fsync file", rf"fsync\({file}\)"),
            ("rename", rf'renameat2?\({folder}, "{re.escape(name)}", {folder}, "step-0'),
            ("fsync directory", rf"fsync\({folder}\)"),
        )
        if re.search(pattern, line)
    ]
    writes = order.count("write")
    assert writes >= 2
    assert order == ["write"] * writes + ["fsync file", "rename", "fsync directory"]
