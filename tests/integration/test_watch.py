"""Early stopping, best weights, ReduceLROnPlateau: alike in both front ends and when resumed."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.cli.main import main
from armtrain.errors import ArgumentError, StorageError
from armtrain.io.safetensors import load_file, read_metadata

RUN = Path(__file__).resolve().parents[2] / "build" / "armtrain-run"
DATA, HELD = "random:samples=22,seed=3", "random:samples=12,seed=5"
PLATEAU = "plateau:patience=0,factor=0.5,threshold=0.05,cooldown=1"
EPOCHS = 8


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, with a plan whose validation loss soon grows."""
    monkeypatch.chdir(tmp_path)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.Tanh(), nn.Linear(6, 3))
    options: dict[str, Any] = {"optimizer": optim.AdamW(lr=0.1), "loss": nn.CrossEntropyLoss()}
    at.plan(net, input_shape=(3, 2, 2), batch_size=8, threads=1, **options).save("m.plan")
    return tmp_path


def fit(epochs: int, name: str, **options: Any) -> at.History:
    """Train with a new trainer; checkpoints and best weights are called after `name`."""
    given = {"checkpoint": name, "keep_best": f"{name}.best", "validation": HELD} | options
    trainer = at.Trainer("m.plan")
    given = {"progress": False, "schedule": PLATEAU} | given
    return trainer.fit(DATA, epochs, resume=True, **given)


def run(epochs: int, *extra: str) -> dict[str, Any]:
    """Train with armtrain-run and return its summary."""
    args = ["m.plan", "--data", DATA, "--validation", HELD, "--epochs", str(epochs), "--resume"]
    args += ["--schedule", PLATEAU, "--checkpoint", "r", "--keep-best", "r.best", "--json", *extra]
    done = subprocess.run([str(RUN), *args], check=True, capture_output=True, timeout=120)
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary


def last(name: str) -> bytes:
    """Return the newest checkpoint of a directory."""
    return (Path(name) / sorted(os.listdir(name))[-1]).read_bytes()


@pytest.mark.parametrize("monitor", ["val_loss", "val_accuracy", "train_loss"])
def test_both_front_ends_and_a_resumed_run_decide_alike(monitor: str, work: Path) -> None:
    whole = fit(EPOCHS, "whole", monitor=monitor)
    for until in (2, 3, EPOCHS):
        parts = fit(until, "parts", monitor=monitor)
    summary = run(EPOCHS, "--monitor", monitor)
    assert whole.best_epoch == parts.best_epoch == summary["best_epoch"]
    assert last("whole") == last("parts") == last("r")
    best = [Path(f"{name}.best").read_bytes() for name in ("whole", "parts", "r")]
    assert best[0] == best[1] == best[2]


def test_early_stopping_ends_both_at_the_same_epoch(work: Path) -> None:
    history = fit(200, "p", early_stopping=2)
    summary = run(200, "--early-stopping", "2")
    assert history.stopped_early
    assert summary["stopped_early"]
    assert history.best_epoch == summary["best_epoch"]
    assert history.epochs[-1].epoch == summary["epochs"] == summary["best_epoch"] + 2
    assert last("p") == last("r")
    again = fit(200, "p", early_stopping=2)
    assert (len(again), again.stopped_early) == (0, True)


def test_the_best_weights_are_those_of_the_best_epoch(work: Path) -> None:
    best = fit(EPOCHS, "p", monitor="val_loss").best_epoch
    assert best is not None
    trainer = at.Trainer("m.plan")
    trainer.fit(DATA, best, schedule=PLATEAU, validation=HELD, progress=False)
    kept = load_file("p.best")
    assert {n: a.tobytes() for n, a in kept.items()} == {
        n: a.tobytes() for n, a in trainer.state_dict().items()
    }
    seed, epoch, value = read_metadata("p.best")["armtrain.best"].split(", ")
    assert (seed, epoch) == ("seed 0", f"epoch {best}")
    assert float(value.removeprefix("value ")) == trainer.evaluate(HELD).loss


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"monitor": "val_loss", "validation": HELD}, "monitor needs early_stopping, keep_best"),
        ({"monitor": "val_loss", "early_stopping": 1}, "needs validation data"),
        ({"monitor": "loss", "early_stopping": 1}, "one of train_loss, val_loss, val_accuracy"),
        ({"early_stopping": 0}, "early_stopping"),
        ({"schedule": "plateau+plateau"}, "only one of the schedules"),
    ],
)
def test_what_cannot_be_watched_is_refused(
    options: dict[str, Any], message: str, work: Path
) -> None:
    with pytest.raises(ArgumentError, match=message):
        at.Trainer("m.plan").fit(DATA, 1, progress=False, **options)


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (
            ["--monitor", "val_loss", "--validation", HELD],
            2,
            "--monitor needs --early-stopping, --keep-best or",
        ),
        (["--monitor", "val_loss", "--early-stopping", "1"], 2, "val_loss needs --validation SPEC"),
        (["--monitor", "loss", "--keep-best", "b"], 2, "train_loss, val_loss or val_accuracy, got"),
        (["--monitor=", "--keep-best", "b"], 2, "--monitor needs a value"),
        (["--early-stopping", "0"], 2, "--early-stopping needs a whole number of at least 1"),
        (["--early-stopping", "1.5"], 2, "--early-stopping needs a whole number of at least 1"),
        (["--early-stopping"], 2, "--early-stopping needs a whole number of at least 1"),
        (["--keep-best"], 2, "--keep-best needs a value"),
        (["--keep-best", "./m.plan"], 2, "are one file"),
        (["--keep-best", "s", "--save", "s"], 2, "are one file"),
        (["--keep-best", "no/b"], 4, "into the directory no/: No such file"),
    ],
)
def test_armtrain_run_refuses(args: list[str], code: int, message: str, work: Path) -> None:
    before = (work / "m.plan").read_bytes()
    command = [str(RUN), "m.plan", "--data", DATA, "--epochs", "1", *args]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "epoch 1/1" not in done.stdout
    assert os.listdir(work) == ["m.plan"]
    assert (work / "m.plan").read_bytes() == before


def test_an_accuracy_of_numbers_cannot_be_watched(work: Path) -> None:
    net = nn.Linear(4, 1)
    options: dict[str, Any] = {"optimizer": optim.SGD(lr=0.1), "loss": nn.MSELoss()}
    at.plan(net, input_shape=(4,), batch_size=4, **options).save("m.plan")
    command = [str(RUN), "m.plan", "--data", DATA, "--validation", HELD, "--epochs", "1"]
    command += ["--early-stopping", "1", "--monitor", "val_accuracy"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "this plan's targets are numbers: use val_loss" in done.stderr
    with pytest.raises(ArgumentError, match="targets are numbers: use 'val_loss'"):
        at.Trainer("m.plan").fit(
            DATA, 1, validation=HELD, early_stopping=1, monitor="val_accuracy", progress=False
        )


def test_best_weights_that_are_gone_at_a_resume_are_looked_for_anew(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = "p.best is missing: the best weights are looked for from epoch 5 on"
    fit(4, "p")
    Path("p.best").unlink()
    shutil.copytree("p", "r")
    history = fit(6, "p", progress=None)
    assert note in capsys.readouterr().out
    assert history.best_epoch in (5, 6)
    args = [str(RUN), "m.plan", "--data", DATA, "--validation", HELD, "--epochs", "6", "--resume"]
    args += ["--schedule", PLATEAU, "--checkpoint", "r", "--keep-best", "r.best"]
    done = subprocess.run(args, check=True, capture_output=True, text=True, timeout=60)
    assert note.replace("p.best", "r.best") in done.stdout
    assert Path("r.best").read_bytes() == Path("p.best").read_bytes()
    assert last("r") == last("p")


def other_best(kind: str) -> None:
    """Put weights that the run did not keep into p.best: of another run, of none, no weights."""
    if kind == "garbage":
        Path("p.best").write_bytes(b"{" * 40)
        return
    trainer = at.Trainer("m.plan", seed=1)
    trainer.fit(DATA, 2, validation=HELD, keep_best="p.best", progress=False)
    if kind == "saved":
        trainer.save("p.best")


@pytest.mark.parametrize("kind", ["run", "saved", "garbage", "earlier"])
def test_best_weights_of_another_run_are_refused_at_a_resume(
    kind: str, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = fit(1, "p").best_epoch
    early = Path("p.best").read_bytes()
    best = fit(4, "p").best_epoch
    assert best is not None
    assert best > 1
    if kind == "earlier":
        Path("p.best").write_bytes(early)
    else:
        other_best(kind)
    before, checkpoint = Path("p.best").read_bytes(), last("p")
    args = ["m.plan", "--data", DATA, "--validation", HELD, "--epochs", "6", "--resume"]
    args += ["--schedule", PLATEAU, "--checkpoint", "p", "--keep-best", "p.best"]
    assert main(["train", *args]) == 1
    ours = capsys.readouterr().err.removeprefix("armtrain train: ")
    done = subprocess.run([str(RUN), *args], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, f"armtrain-run: {ours}")
    says = {"run": "'seed 1, epoch ", "earlier": "'seed 0, epoch 1, "}.get(kind, "'nothing'")
    assert f"p.best does not hold the best weights of this run: it says {says}" in ours
    assert f"the checkpoint 'seed 0, epoch {best}, value " in ours
    assert "in another file, or remove this one: then they are looked for from epoch 5 on" in ours
    assert (Path("p.best").read_bytes(), last("p")) == (before, checkpoint)
    fit(6, "p", keep_best="q.best")
    assert Path("q.best").exists()


def test_a_value_that_was_not_followed_before_begins_anew(work: Path) -> None:
    fit(2, "p", monitor="val_loss")
    shutil.copytree("p", "r")
    for name in "pr":
        Path(f"{name}.best").write_bytes(b"any")
    history = fit(4, "p", monitor="train_loss")
    assert history.best_epoch == run(4, "--monitor", "train_loss")["best_epoch"]
    assert Path("p.best").read_bytes() == Path("r.best").read_bytes()


@pytest.mark.parametrize("monitor", ["val_loss", "val_accuracy"])
def test_labels_that_are_all_ignored_measure_nothing(monitor: str, work: Path) -> None:
    options: dict[str, Any] = {"optimizer": optim.SGD(lr=0.1)}
    options["loss"] = nn.CrossEntropyLoss(ignore_index=2)
    at.plan(nn.Linear(4, 3), input_shape=(4,), batch_size=4, **options).save("m.plan")
    np.savez("v.npz", x=np.ones((6, 4), np.float32), y=np.full(6, 2))
    history = fit(4, "p", monitor=monitor, early_stopping=1, validation="npz:v.npz")
    summary = run(4, "--monitor", monitor, "--early-stopping", "1", "--validation", "npz:v.npz")
    assert (len(history), history.best_epoch, history.stopped_early) == (4, None, False)
    assert [summary[n] for n in ("epochs", "best_epoch", "stopped_early")] == [4, None, False]
    assert not Path("p.best").exists()
    assert not Path("r.best").exists()
    assert last("p") == last("r")


@pytest.mark.parametrize("how", ["schedule", "data"])
def test_another_schedule_or_other_data_are_told_at_a_resume(
    how: str, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = [str(RUN), "m.plan", "--checkpoint", "c", "--resume", "--epochs"]
    given = {"schedule": "step:step_size=5", "data": DATA}
    other = given | {"schedule": "step:step_size=6"} if how == "schedule" else given
    other = other | {"data": "random:samples=22,seed=4"} if how == "data" else other
    told = {"schedule": "under another schedule", "data": "are not those of the checkpoint"}[how]
    texts = []
    for epochs, now in enumerate((given, given, other, other), 1):
        args = [*first, str(epochs), "--data", now["data"], "--schedule", now["schedule"]]
        texts.append(subprocess.run(args, check=True, capture_output=True, timeout=60).stdout)
    assert [told in text.decode() for text in texts] == [False, False, True, False]
    trainer = at.Trainer("m.plan")
    trainer.fit(given["data"], 5, schedule=given["schedule"], checkpoint="c", resume=True)
    assert told in capsys.readouterr().out


def sealed(content: bytearray) -> bytes:
    """Return a checkpoint with the checksum that fits."""
    content[24:28] = zlib.crc32(content[28:]).to_bytes(4, "little")
    return bytes(content)


def test_a_checkpoint_of_format_1_0_is_resumed(work: Path) -> None:
    trainer = at.Trainer("m.plan")
    trainer.fit(DATA, 1, checkpoint="c", progress=False)
    (file,) = Path("c").glob("*.ckpt")
    content = bytearray(file.read_bytes())
    del content[168:232]
    struct.pack_into("<HIQ", content, 10, 0, 168, len(content))
    at_record = 168
    for _ in range(struct.unpack_from("<I", content, 28)[0]):
        name_bytes, offset = struct.unpack_from("<I28xQ", content, at_record)
        struct.pack_into("<Q", content, at_record + 32, offset - 64)
        at_record += 48 + -(-name_bytes // 8) * 8
    file.write_bytes(sealed(content))
    resumed = at.Trainer("m.plan")
    resumed.fit(DATA, 2, checkpoint="c", resume=True, progress=False)
    trainer.fit(DATA, 1, progress=False)
    for name, array in trainer.state_dict().items():
        assert array.tobytes() == resumed.state_dict()[name].tobytes()


@pytest.mark.parametrize(
    ("at_byte", "value", "field"),
    [
        (168, struct.pack("<I", 4), "quantity"),
        (184, struct.pack("<Q", 99), "epoch"),
        (192, struct.pack("<Q", 99), "best_epoch"),
        (200, struct.pack("<d", float("nan")), "best"),
        (216, struct.pack("<d", 1.5), "plateau_scale"),
    ],
)
def test_senseless_watched_values_are_skipped(
    at_byte: int, value: bytes, field: str, work: Path
) -> None:
    fit(1, "c")
    (file,) = Path("c").glob("*.ckpt")
    content = bytearray(file.read_bytes())
    content[at_byte : at_byte + len(value)] = value
    file.write_bytes(sealed(content))
    with pytest.raises(StorageError, match="1 damaged"):
        at.Trainer("m.plan").fit(DATA, 2, checkpoint="c", resume=True)
    args = [str(RUN), "m.plan", "--data", DATA, "--epochs", "2", "--checkpoint", "c", "--resume"]
    done = subprocess.run(args, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 4
    assert f"the {field} of its measured epochs" in done.stdout + done.stderr
