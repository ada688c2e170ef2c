"""Wrong command lines: exit 2 and one line that names the flag, in both front ends alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from armtrain.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "build" / "armtrain-run"
DATA = ["--data", "random:"]
GOOD = [*DATA, "--epochs", "1"]

# (arguments behind the plan, what the line names)
SHARED: list[tuple[list[str], str]] = [
    (["--epochs", "1"], "--data"),
    (DATA, "--epochs"),
    ([*DATA, "--epochs", "-1"], "--epochs"),
    ([*DATA, "--epochs", "x"], "--epochs"),
    ([*DATA, "--epochs", "1_0"], "--epochs"),
    ([*DATA, "--epochs", " 1"], "--epochs"),
    ([*DATA, "--epochs", "+1"], "--epochs"),
    ([*DATA, "--epochs", "1.5"], "--epochs"),
    ([*DATA, "--epochs="], "--epochs"),
    ([*DATA, "--epochs", str(2**64)], "--epochs"),
    ([*DATA, "--epochs"], "--epochs"),
    ([*DATA, "--epoch", "1"], "--epoch"),
    ([*GOOD, "--threads", "0"], "--threads"),
    ([*GOOD, "--threads", "-2"], "--threads"),
    ([*GOOD, "--threads", str(2**32)], "--threads"),
    ([*GOOD, "--threads", "two"], "--threads"),
    ([*GOOD, "--seed", "-1"], "--seed"),
    ([*GOOD, "--seed", str(2**64)], "--seed"),
    ([*GOOD, "--resume"], "--resume"),
    ([*GOOD, "--resume=1"], "--resume"),
    ([*GOOD, "--checkpoint-every", "2"], "--checkpoint-every"),
    ([*GOOD, "--checkpoint", "c", "--checkpoint-every", "0"], "--checkpoint-every"),
    ([*GOOD, "--checkpoint="], "--checkpoint"),
    ([*GOOD, "--save="], "--save"),
    ([*GOOD, "--log="], "--log"),
    ([*GOOD, "--weights="], "--weights"),
    ([*GOOD, "--data"], "--data"),
    (["--data", "nothing:f", "--epochs", "1"], "--data"),
    (["--data", "random:samples=0", "--epochs", "1"], "--data"),
    (["--data", "random:speed=1", "--epochs", "1"], "--data"),
    (["--data", f"random:samples={2**40 + 1}", "--epochs", "1"], "--data"),
    (["--data", "idx:one", "--epochs", "1"], "--data"),
    (["--data", "npz:", "--epochs", "1"], "--data"),
    (["--data=", "--epochs", "1"], "--data"),
    ([*GOOD, "--validation", "nothing:f"], "--validation"),
    ([*GOOD, "--wings"], "--wings"),
    ([*GOOD, "--wings=2"], "--wings"),
    ([*GOOD, "second.plan"], "second.plan"),
]
PLAN = ["plan", "zoo:lenet", "-o", "m.plan", "--batch", "1"]
ONLY_ARMTRAIN: list[tuple[list[str], str]] = [
    (["plan", "zoo:lenet", "-o", "m.plan"], "--batch"),
    (["plan", "zoo:lenet", "--batch", "1"], "--output"),
    (["plan", "zoo:lenet", "-o", "", "--batch", "1"], "--output"),
    (["plan", "zoo:nothing", "-o", "m.plan", "--batch", "1"], "MODEL"),
    (["plan", "nothing", "-o", "m.plan", "--batch", "1"], "MODEL"),
    (["plan", "missing.py:make", "-o", "m.plan", "--batch", "1"], "MODEL"),
    ([*PLAN, "--batch", "0"], "--batch"),
    ([*PLAN, "--input-shape", "3,4"], "--input-shape"),
    ([*PLAN, "--loss", "hinge"], "--loss"),
    ([*PLAN, "--optimizer", "sgd:speed=1"], "--optimizer"),
    ([*PLAN, "--optimizer", "sgd:lr=-1"], "--optimizer"),
    ([*PLAN, "--clip-norm", "x"], "--clip-norm"),
    ([*PLAN, "--clip-norm", "0"], "--clip-norm"),
    ([*PLAN, "--clip-norm", "nan"], "--clip-norm"),
    ([*PLAN, "--budget", "2 apples"], "--budget"),
    ([*PLAN, "--threads", "0"], "--threads"),
    (["train", "m.plan", *GOOD, "--kernel-level", "abacus"], "--kernel-level"),
    (["bench", "--repeat", "0"], "--repeat"),
    (["bench", "--kernel-level", "abacus"], "--kernel-level"),
    (["demo", "cats"], "cats"),
    (["demo", "--epochs", "0"], "--epochs"),
    (["doctor", "--root", "."], "--root"),
    (["convert-data", "random:", "-o", "o.npz"], "SPEC"),
    (["convert-data", "nothing:f", "-o", "o.npz"], "SPEC"),
    (["check-data"], "SPEC"),
    (["check-data", "random:"], "SPEC"),
    (["check-data", "csv:f?wings=2"], "wings=2"),
    (["pack"], "BUFFERS.csv"),
    (["pack", "b.csv", "--capacity", "much"], "--capacity"),
    (["pack", "b.csv", "--nodes", "-1"], "--nodes"),
    (["fly"], "fly"),
    ([], "VERB"),
]


def of_armtrain(args: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return exit code and standard error of `armtrain`."""
    try:
        code = main(args)
    except SystemExit as left:
        code = int(left.code or 0)
    out, err = capsys.readouterr()
    check_output(args, code, out, err)
    return code, err


def of_run(args: list[str]) -> tuple[int, str]:
    """Return exit code and standard error of `armtrain-run`."""
    done = subprocess.run(
        [str(RUN), *args], capture_output=True, text=True, errors="surrogateescape", check=False
    )
    check_output(args, done.returncode, done.stdout, done.stderr)
    return done.returncode, done.stderr


def check_output(args: list[str], code: int, out: str, err: str) -> None:
    """Compare the standard output with the error: one object with --json, nothing without."""
    if "--json" not in args:
        assert out == ""
        return
    told = json.loads(out)
    assert told == {"error": err.partition(": ")[2].rstrip("\n"), "exit_code": code}


@pytest.mark.parametrize(("args", "names"), SHARED, ids=lambda value: " ".join(value))
def test_both_front_ends(args: list[str], names: str, capsys: pytest.CaptureFixture[str]) -> None:
    for code, err in (
        of_armtrain(["train", "m.plan", *args], capsys),
        of_run(["m.plan", *args]),
    ):
        assert (code, err.count("\n")) == (2, 1), err
        assert names in err.partition(":")[2], err


@pytest.mark.parametrize(("args", "names"), SHARED, ids=lambda value: " ".join(value))
def test_json_of_both_front_ends(
    args: list[str], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for code, err in (
        of_armtrain(["train", "m.plan", "--json", *args], capsys),
        of_run(["m.plan", "--json", *args]),
    ):
        assert code == 2
        assert names in err


@pytest.mark.parametrize("name", ["missing.plan", 'süß\n"\\.plan'])
def test_json_of_a_file_that_cannot_be_read(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert of_armtrain(["train", name, *GOOD, "--json"], capsys)[0] == 4
    assert of_run([name, *GOOD, "--json"])[0] == 4


@pytest.mark.parametrize(
    "name", [b"\xff", b"\xe2\x82", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
)
def test_json_of_a_name_that_is_no_utf8(name: bytes) -> None:
    assert of_run([os.fsdecode(name), *GOOD, "--json"])[0] == 4


@pytest.mark.parametrize(
    ("option", "least", "most"),
    [
        ("--epochs", 0, 2**31 - 1),
        ("--checkpoint-every", 1, 2**31 - 1),
        ("--seed", 0, 2**64 - 1),
        ("--threads", 1, 2**32 - 1),
    ],
)
@pytest.mark.parametrize("beyond", ["one", "5000 digits", "below"])
def test_numbers_out_of_range_name_both_ends(
    option: str, least: int, most: int, beyond: str, capsys: pytest.CaptureFixture[str]
) -> None:
    value = {"one": str(most + 1), "5000 digits": "9" * 5000, "below": str(least - 1)}[beyond]
    args = [*GOOD, "--checkpoint", "c", option, value]
    for code, err in (
        of_armtrain(["train", "m.plan", *args], capsys),
        of_run(["m.plan", *args]),
    ):
        assert (code, err.count("\n")) == (2, 1)
        assert option in err
        assert f"whole number of at least {least} and at most {most};" in err


def test_a_missing_plan_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for code, err in (of_armtrain(["train", *GOOD], capsys), of_run(GOOD)):
        assert (code, err.count("\n")) == (2, 1), err
        assert "plan" in err.partition(":")[2].lower()


@pytest.mark.parametrize(("args", "names"), ONLY_ARMTRAIN, ids=lambda value: " ".join(value))
def test_armtrain_alone(args: list[str], names: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, err = of_armtrain(args, capsys)
    assert (code, err.count("\n")) == (2, 1), err
    assert names in err.partition(":")[2], err


INTERRUPT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
# A child of a shell's background job would inherit that the signal is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from armtrain.__main__ import main
sys.argv = ["armtrain", "demo"]
sys.exit(main())
"""


@pytest.mark.parametrize(
    "module",
    ["armtrain.cli", "armtrain.cli.main", "armtrain.cli.bench", "numpy", "armtrain.demos"],
)
def test_ctrl_c_while_loading_is_quiet(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT.format(module=module)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr.rstrip("\n").endswith("interrupted")
    assert done.stderr.count("\n") == 1


def test_the_command_is_the_quiet_one() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert 'armtrain = "armtrain.__main__:main"' in text
