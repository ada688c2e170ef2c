"""Both front ends in processes of their own: what was good is never overwritten, mixed or lost."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.errors import NonFiniteError, StorageError
from armtrain.io.safetensors import load_file, save_file

ROOT = Path(__file__).resolve().parents[2]
FRONT_ENDS = {
    "armtrain": [sys.executable, "-m", "armtrain", "train"],
    "armtrain-run": [str(ROOT / "build" / "armtrain-run")],
}
TRAIN = ["net.plan", "--data", "random:samples=8", "--epochs"]


@pytest.fixture(params=FRONT_ENDS)
def front(request: pytest.FixtureRequest) -> list[str]:
    """Return the command that trains."""
    return FRONT_ENDS[request.param]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, with a plan and weights."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    options: dict[str, Any] = {"loss": nn.CrossEntropyLoss(), "optimizer": optim.SGD(lr=0.1)}
    plan = at.plan(net, input_shape=(1, 2, 2), batch_size=4, threads=1, **options)
    plan.save("net.plan")
    at.Trainer(plan).save("w")
    return tmp_path


def run(command: list[str], code: int, **options: Any) -> str:
    """Run a command, which must end with `code` and without a traceback; return what it said."""
    captured = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    done = subprocess.run(command, text=True, timeout=120, check=False, **captured)
    said = (done.stdout or "") + done.stderr
    assert done.returncode == code, f"{command}: {done.returncode}\n{said}"
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    return said


def armtrain(*args: object) -> list[str]:
    """Return the command line of a verb."""
    return [sys.executable, "-m", "armtrain", *map(str, args)]


def listing(folder: Path) -> dict[str, bytes]:
    """Return the content of every file."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


# --- one run in a directory --------------------------------------------------------------------


@pytest.mark.parametrize("second", FRONT_ENDS)
def test_a_directory_serves_one_run(front: list[str], second: str, work: Path) -> None:
    endless = [*front, *TRAIN, "1000000000", "--checkpoint", "c", "--checkpoint-every", "1"]
    other = [*FRONT_ENDS[second], *TRAIN, "1", "--checkpoint", "c"]
    with subprocess.Popen(endless, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        try:
            while not list(work.glob("c/step-*.ckpt")):
                assert first.poll() is None
                time.sleep(0.02)
            for extra in ([], ["--resume"]):
                said = run([*other, *extra], 4)
                assert "another run" in said
                assert "wait for it or stop it, or choose another directory" in said
            if f"FLOCK  ADVISORY  WRITE {first.pid} " in Path("/proc/locks").read_text():
                assert f"(process {first.pid})" in said
            assert first.poll() is None
        finally:
            first.send_signal(signal.SIGKILL)
    assert not [name for name in os.listdir("c") if "lock" in name]
    assert "resumed at step" in run([*other, "--resume"], 0)


@pytest.mark.parametrize(
    ("successor", "message"),
    [("", "was removed or renamed while"), ("c", "was replaced by another one while")],
)
def test_a_directory_that_moved_takes_no_checkpoint(
    front: list[str], successor: str, message: str, work: Path
) -> None:
    (work / "new").mkdir()
    endless = [*front, *TRAIN, "1000000000", "--checkpoint", "c", "--checkpoint-every", "1"]
    with subprocess.Popen(
        endless, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            while not list(work.glob("c/step-*.ckpt")):
                assert process.poll() is None
                time.sleep(0.02)
            (work / "c").rename("moved")
            if successor:
                # A run that found the name missing has stopped already: then nothing is replaced.
                (work / "new").rename(successor)
            said = process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert process.returncode == 4, said
    assert message in said or "was removed or renamed while" in said
    assert not list(work.glob("c/*"))
    assert list(work.glob("moved/step-*.ckpt"))
    (work / "moved").rename("back")
    assert "resumed at step" in run([*front, *TRAIN, "1", "--checkpoint", "back", "--resume"], 0)


def test_a_trainer_holds_its_directory_while_it_fits(work: Path) -> None:
    refused = []

    class Intruder:
        """Starts a second run in the first one's first step."""

        def begin(self, *_: object) -> None:
            """Do nothing."""

        def step(self, *_: object) -> None:
            """Try."""
            with pytest.raises(StorageError, match="another run") as caught:
                at.Trainer("net.plan").fit("random:", 1, checkpoint="c", progress=False)
            refused.append(caught.value)

        end = note = clear = begin

    trainer = at.Trainer("net.plan")
    trainer.fit("random:", 1, checkpoint="c", progress=Intruder())
    assert refused
    assert len(trainer.fit("random:", 2, checkpoint="c", resume=True, progress=False)) == 1


def test_without_locks_a_note_is_enough(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    notes: list[str] = []
    monkeypatch.setattr("fcntl.flock", unsupported)
    from armtrain.runtime.progress import Quiet

    monkeypatch.setattr(Quiet, "note", lambda _, text: notes.append(text))
    at.Trainer("net.plan").fit("random:", 1, checkpoint="c", progress=False)
    assert any("c has no locks: start no second run there" in note for note in notes)


# --- inputs stay what they are -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (["--save", "./net.plan"], ("--save", "PLAN")),
        (["--save", "hard"], ("--save", "PLAN")),
        (["--log", "soft"], ("--log", "PLAN")),
        (["--log", "w", "--weights", "w"], ("--log", "--weights")),
        (["--log", "w", "--validation", "idx:x,w"], ("--log", "--validation")),
        (["--save", "new", "--log", "../{}/new"], ("--log", "--save")),
        (["--save", "new", "--log", "dangling"], ("--log", "--save")),
        (["--save", "new", "--checkpoint", "new"], ("--checkpoint", "--save")),
    ],
)
def test_no_output_overwrites_an_input(
    args: list[str], names: tuple[str, str], front: list[str], work: Path
) -> None:
    (work / "hard").hardlink_to(work / "net.plan")
    (work / "soft").symlink_to("net.plan")
    (work / "dangling").symlink_to("new")
    before = listing(work)
    said = run([*front, *TRAIN, "1", *(a.format(work.name) for a in args)], 2)
    assert names[0] in said
    assert names[1] in said or names[1].lower() in said.lower()
    assert "are one file" in said
    assert listing(work) == before


def test_data_stay_what_they_are(front: list[str], work: Path) -> None:
    np.savez("d.npz", x=np.zeros((4, 1, 2, 2), np.float32), y=np.zeros(4, np.int32))
    before = listing(work)
    command = [*front, "net.plan", "--data", "npz:d.npz", "--epochs", "1", "--save", "./d.npz"]
    assert "--data" in run(command, 2)
    for verb in (
        ["inspect", "net.plan", "--svg", "net.plan"],
        ["inspect", "net.plan", "--html", work / "net.plan"],
        ["predict", "net.plan", "--weights", "w", "--data", "npz:d.npz", "-o", "d.npz"],
        ["convert-data", "npz:d.npz", "-o", "d.npz"],
    ):
        assert "are one file" in run(armtrain(*verb), 2)
    assert listing(work) == before


def test_weights_may_be_replaced_by_their_successors(front: list[str], work: Path) -> None:
    before = (work / "w").read_bytes()
    os.chmod("w", 0o600)
    run([*front, *TRAIN, "1", "--weights", "w", "--save", "w"], 0)
    assert (work / "w").read_bytes() != before
    assert os.stat("w").st_mode & 0o777 == 0o600


# --- refused before the first step -------------------------------------------------------------


@pytest.mark.parametrize("option", ["--save", "--log", "--checkpoint"])
@pytest.mark.parametrize("target", ["no/new", "folder", "file/new"])
def test_bad_targets_are_found_before_training(
    option: str, target: str, front: list[str], work: Path
) -> None:
    if option == "--checkpoint":
        target = {"no/new": "file", "folder": "file/"}.get(target, target)
    (work / "folder").mkdir()
    (work / "file").write_text("")
    before = sorted(p.name for p in work.rglob("*"))
    said = run([*front, *TRAIN, "1", option, target], 4)
    assert "epoch 1/" not in said
    assert sorted(p.name for p in work.rglob("*")) == before


def test_names_that_are_too_long_are_found_before_training(front: list[str], work: Path) -> None:
    for option, name in (("--save", "n" * 256), ("--checkpoint", "d/" * 2100)):
        said = run([*front, *TRAIN, "1", option, name], 4)
        assert "epoch 1/" not in said
        assert "shorter" in said or "characters" in said
    run([*front, *TRAIN, "1", "--save", "n" * 255], 0)


def test_a_prediction_finds_its_bad_target_first(work: Path) -> None:
    predict = ["predict", "net.plan", "--weights", "none", "--data", "random:", "-o"]
    assert "does not exist; create it" in run(armtrain(*predict, "no/p.npz"), 4)
    for target in ("/", "."):
        said = run(armtrain("plan", "zoo:lenet", "--batch", 1, "-o", target), 4)
        assert "choose" in said


def test_pipes_and_devices_are_refused(front: list[str], work: Path) -> None:
    os.mkfifo("pipe")
    for args in (
        ["pipe", "--data", "random:"],
        ["/dev/zero", "--data", "random:"],
        ["net.plan", "--data", "npz:pipe"],
        ["net.plan", "--data", "idx:pipe,pipe"],
        ["net.plan", "--data", "idx:/dev/zero,pipe"],
        ["net.plan", "--data", "random:", "--weights", "pipe"],
    ):
        assert "not a regular file" in run([*front, *args, "--epochs", "1"], 4)
    said = run([*front, *TRAIN, "1", "--log", "pipe"], 4)
    assert "pipe: No such device or address; it is a socket, or a pipe that nobody reads" in said
    (work / "c").mkdir()
    os.mkfifo("c/step-000000000001.ckpt")
    said = run([*front, *TRAIN, "1", "--checkpoint", "c", "--resume"], 4)
    assert "not a regular file" in said
    for verb in (["check", "pipe"], ["inspect", "/dev/zero"]):
        assert "not a regular file" in run(armtrain(*verb), 4)


def spoil(value: float, dtype: type = np.float32) -> Callable[[], None]:
    """Return a change of the weights in w: element 4 of one tensor becomes `value`."""

    def change() -> None:
        tensors = load_file("w")
        weight = tensors["1.weight"].astype(dtype)
        weight[1, 0] = value
        save_file(tensors | {"1.weight": weight}, "w")

    return change


@pytest.mark.parametrize(
    "change", [spoil(np.nan), spoil(-np.inf), spoil(1e300, np.float64), spoil(np.inf, np.float16)]
)
def test_weights_that_are_no_numbers_are_refused(change: Callable[[], None], work: Path) -> None:
    change()
    trainer = at.Trainer("net.plan", seed=3)
    before = {name: array.tobytes() for name, array in trainer.state_dict().items()}
    with pytest.raises(NonFiniteError, match=r"'1\.weight' in w .* at element 4 .*nothing was"):
        trainer.load("w")
    assert {name: array.tobytes() for name, array in trainer.state_dict().items()} == before
    with pytest.raises(NonFiniteError, match=r"'1\.weight' .* at element 4 "):
        trainer.load_state_dict(load_file("w"))
    for front in FRONT_ENDS.values():
        assert "at element 4" in run([*front, *TRAIN, "1", "--weights", "w"], 1)


def test_nul_is_no_end_of_a_path(work: Path) -> None:
    trainer = at.Trainer("net.plan")
    calls: list[Callable[[], object]] = [
        lambda: trainer.save("x\0y"),
        lambda: trainer.load("w\0y"),
        lambda: trainer._engine.checkpoint_save("c\0y", 2),
        lambda: trainer._engine.checkpoint_load("c\0y"),
        lambda: trainer._engine.read("1.bias\0y", np.zeros(3, np.float32)),
        lambda: trainer._engine.write("1.bias\0y", np.zeros(3, np.float32)),
        lambda: at.Trainer("net.plan", kernel_level="c\0y"),
        lambda: at.Trainer("net.plan\0y"),
        lambda: at.Plan.load("net.plan\0y"),
        lambda: trainer.plan.save("x\0y"),
        lambda: trainer.fit("random:", 1, checkpoint="c\0y", progress=False),
        lambda: trainer.fit("random:", 1, log="x\0y", progress=False),
        lambda: trainer.fit("npz:x\0y", 1, progress=False),
        lambda: at.load_weights("w\0y"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="NUL"):
            call()
    assert sorted(os.listdir(work)) == ["net.plan", "w"]


# --- nobody listens ----------------------------------------------------------------------------


def closed() -> None:
    """Close the standard output, as `>&-` does."""
    os.close(1)


def test_a_full_standard_output_exits_4_and_loses_nothing(front: list[str], work: Path) -> None:
    command = [*front, *TRAIN, "2", "--save", "new", "--log", "log"]
    with open("/dev/full", "w") as full:
        for extra in ([], ["--json"]):
            for options in ({"stdout": full}, {"preexec_fn": closed}):
                said = run([*command, *extra], 4, **options)
                assert said.count("cannot write the standard output") == 1
                lines = (work / "log").read_text().splitlines()
                assert [json.loads(line)["epoch"] for line in lines] == [1, 2]
                assert load_file("new")
                os.unlink("new")


def test_every_verb_reports_a_full_standard_output(work: Path) -> None:
    np.savez("d.npz", x=np.zeros((4, 1, 2, 2), np.float32), y=np.zeros(4, np.int32))
    weights = ["net.plan", "--weights", "w", "--data", "npz:d.npz"]
    commands: list[list[object]] = [
        ["--version"],
        ["--help"],
        ["check", "net.plan", "--json"],
        ["inspect", "net.plan"],
        ["inspect", "net.plan", "--json"],
        ["plan", "zoo:lenet", "--batch", 1, "-o", "l.plan", "--json"],
        ["evaluate", *weights, "--json"],
        ["predict", *weights],
        ["predict", *weights, "--json"],
        ["convert-data", "npz:d.npz", "-o", "e.npz", "--json"],
        ["boards", "--json"],
        ["doctor", "--json"],
    ]
    with open("/dev/full", "w") as full:
        for args in commands:
            said = run(armtrain(*args), 4, stdout=full)
            assert said.count("\n") == 1, said
        assert run(armtrain("check", "none", "--json"), 4, stdout=full).count("\n") == 1
        run([FRONT_ENDS["armtrain-run"][0], "--help"], 4, stdout=full)
    for args in commands[:3]:
        run(armtrain(*args), 4, preexec_fn=closed)


def test_a_reader_that_leaves_does_not_stop_a_training(front: list[str], work: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        said = run([*front, *TRAIN, "2", "--save", "new", "--json"], 1, stdout=pipe)
    assert "standard output" not in said
    assert load_file("new")


def test_a_full_disk_names_the_log(front: list[str], work: Path) -> None:
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    said = run([*front, *TRAIN, "2", "--log", "log"], 4, preexec_fn=small_files)
    assert "cannot write the log log: File too large" in said
    assert "ulimit -f" in said
