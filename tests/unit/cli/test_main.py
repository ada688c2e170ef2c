"""The command line without an engine: usage, exit codes, one message, JSON alone on stdout."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from armtrain import __version__
from armtrain.cli import main as main_module
from armtrain.cli.main import build_parser, main
from armtrain.errors import DoesNotFitError, PlanError


def usage_error(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """Return the message of a command line that argparse refuses."""
    with pytest.raises(SystemExit) as caught:
        main(args)
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"armtrain {__version__}\n"


def test_version_is_that_of_the_project(root: Path) -> None:
    text = (root / "pyproject.toml").read_text()
    assert re.search(r'^version = "(.*)"$', text, re.MULTILINE)[1] == __version__
    header = (root / "kernels" / "include" / "armtrain.h").read_text()
    assert f'#define ART_VERSION "{__version__}"' in header


@pytest.mark.parametrize("verb", [v.__name__.rsplit(".", 1)[1] for v in main_module.VERBS])
def test_every_verb_has_help_and_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([verb.replace("_", "-"), "--help"])
    assert caught.value.code == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "VERB"),
        (["fly"], "invalid choice"),
        (["train", "f.plan", "--epochs", "1"], "--data"),
        (["train", "f.plan", "--data", "tsv:f", "--epochs", "1"], "possible are digits"),
        (["train", "f.plan", "--data", "digits", "--epochs", "-1"], "at least 0"),
        (["train", "f.plan", "--data", "digits", "--epochs", "x"], "whole number"),
        (["train", "f.plan", "--data", "digits", "--epochs", "1", "--threads", "0"], "at least 1"),
        (["plan", "zoo:lenet", "-o", "f", "--batch", "0"], "at least 1"),
        (["plan", "zoo:lenet", "-o", "f", "--batch", "1", "--input-shape", "3,4"], "3x32x32"),
        (["plan", "zoo:lenet", "-o", "f", "--batch", "1", "--budget", "2 apples"], "2 MiB"),
        (["plan", "zoo:lenet", "-o", "f", "--batch", "1", "--budget", "9" * 30], "can record"),
        (["plan", "zoo:lenet", "-o", "f", "--batch", "9" * 30], "at most 4294967295"),
        (["plan", "zoo:lenet", "-o", "f", "--batch", "1", "--input-shape", "3x0x4"], "3x32x32"),
        (["train", "f.plan", "--data", "digits", "--epochs", "1", "--seed", "9" * 30], "at most 1"),
        (["train", "f.plan", "--data", f"random:samples={2**70}", "--epochs", "1"], "samples=N"),
        (["demo", "cats"], "invalid choice"),
    ],
)
def test_usage_errors(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in usage_error(capsys, *args)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--clip-norm", "1e-50"], "clip_norm"),
        (["--clip-norm", "1e39"], "clip_norm"),
        (["--clip-value", "1e39"], "clip_value"),
        (["--clip-value", "1", "--clip-norm", "1"], "give one of them"),
        (["--threads", "65"], "threads needs an integer from 1 to 64, got 65"),
        (["--batch", "2147483648"], "batch_size needs an integer from 1 to 2147483647"),
        (["--optimizer", "sgd:lr=1e-50"], "too small for a float32"),
        (["--board", "raspberypi-4b"], "similar are raspberrypi-4b"),
        (["--train-only", "zzz"], "similar names are"),
    ],
)
def test_inputs_of_a_plan_that_cannot_be(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "f.plan"
    assert main(["plan", "zoo:lenet", "-o", str(out), "--batch", "1", *options]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("nn.Linear(2**31, 2**31)", 2, "in_features needs an integer from 1 to 2147483647"),
        ("nn.Linear(4, 2**31 - 1)", 3, "an arena has at most 137,438,953,472 B"),
    ],
)
def test_models_that_cannot_be(
    body: str, code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.py"
    model.write_text(f"from armtrain import nn\n\n\ndef make():\n    return {body}\n")
    args = [f"{model}:make", "-o", str(tmp_path / "f.plan"), "--batch", "9"]
    assert main(["plan", *args, "--input-shape", "4"]) == code
    assert message in capsys.readouterr().err


def test_a_budget_refusal_names_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["zoo:mlp", "-o", str(tmp_path / "f.plan"), "--batch", "64", "--budget", "3.9 MB"]
    assert main(["plan", *args]) == 3
    err = capsys.readouterr().err
    assert "--threads 3: needs" in err
    assert "--batch 55: needs" in err
    assert "batch_size=" not in err


def test_resume_needs_a_directory(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["train", "f.plan", "--data", "digits", "--epochs", "1", "--resume", "--json"]
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert "need --checkpoint DIR" in err
    assert json.loads(out)["exit_code"] == 2


def test_exhausted_memory_names_the_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: object) -> int:
        raise MemoryError

    monkeypatch.setattr(main_module.check, "run", fail)
    monkeypatch.setattr(main_module.resource, "getrlimit", lambda kind: (4096, 8192))
    assert main(["check", "f.plan"]) == 3
    err = capsys.readouterr().err
    assert re.search(r"has [1-9]\d+ bytes resident, at most [1-9]\d+; RLIMIT_AS is 4096 bytes", err)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (PlanError("cause"), 1, "cause"),
        (DoesNotFitError("too big"), 3, "too big"),
        (MemoryError("7 B"), 3, "memory is exhausted (7 B): the process has "),
        (MemoryError(), 3, "memory is exhausted: the process has "),
        (FileNotFoundError(2, "No such file or directory", "f"), 4, "f: No such file"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("x"), 1, "defect in armtrain (ZeroDivisionError: x)"),
    ],
)
def test_errors_are_one_line_and_a_code(
    error: BaseException,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(args: object) -> int:
        raise error

    monkeypatch.setattr(main_module.check, "run", fail)
    assert main(["check", "f.plan", "--json"]) == code
    out, err = capsys.readouterr()
    assert err.startswith("armtrain check: ")
    assert message in err
    assert err.count("\n") == 1
    assert json.loads(out) == {
        "error": err.removeprefix("armtrain check: ").strip(),
        "exit_code": code,
    }


def test_traceback_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(args: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setenv("ARMTRAIN_TRACEBACK", "1")
    monkeypatch.setattr(main_module.check, "run", fail)
    with pytest.raises(ZeroDivisionError):
        main(["check", "f.plan"])


@pytest.mark.parametrize("value", ["", "0", "no", "False"])
def test_no_traceback_when_it_is_switched_off(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ARMTRAIN_TRACEBACK", value)
    assert main(["check", "missing.plan"]) == 4
    assert "missing.plan" in capsys.readouterr().err


def test_missing_plan_is_a_storage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "missing.plan"]) == 4
    assert "missing.plan" in capsys.readouterr().err


def test_convert_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "d.npz"
    assert main(["convert-data", "digits:test", "-o", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["shapes"] == {"x": [359, 1, 8, 8], "y": [359]}
    with np.load(path) as data:
        assert (data["x"].dtype, data["y"].dtype) == (np.float32, np.int32)
        assert data["x"].max() == 1


@pytest.mark.parametrize("dtype", ["u1", "f8", "f2"])
def test_convert_keeps_bytes_and_rounds_floats(tmp_path: Path, dtype: str) -> None:
    x = (np.arange(20).reshape(5, 4) / (1 if dtype == "u1" else 3)).astype(dtype)
    np.savez_compressed(tmp_path / "in.npz", x=x, y=np.arange(5, dtype=np.int64))
    out = tmp_path / "out.npz"
    assert main(["convert-data", f"npz:{tmp_path / 'in.npz'}", "-o", str(out)]) == 0
    with np.load(out) as data:
        want = x if dtype == "u1" else x.astype(np.float32)
        assert data["x"].dtype == want.dtype
        assert data["x"].tobytes() == want.tobytes()
        assert data["y"].dtype == np.int32


def test_convert_refuses_what_training_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.npz"
    np.savez(tmp_path / "in.npz", x=np.full((2, 3), 2**40))
    assert main(["convert-data", f"npz:{tmp_path / 'in.npz'}", "-o", str(out)]) == 1
    assert "beyond 32 bits" in capsys.readouterr().err
    np.savez(tmp_path / "in.npz", x=np.zeros((2, 3)), y=np.array([0, 2**40]))
    assert main(["convert-data", f"npz:{tmp_path / 'in.npz'}", "-o", str(out)]) == 1
    assert "beyond 32 bits" in capsys.readouterr().err
    assert main(["convert-data", "random:", "-o", str(out)]) == 2
    assert not out.exists()


def test_parser_lists_all_verbs() -> None:
    text = build_parser().format_help()
    for verb in ("demo", "plan", "inspect", "check", "train", "evaluate", "predict", "doctor"):
        assert verb in text
