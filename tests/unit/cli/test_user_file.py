"""A model file's own errors name its line; armtrain's errors stay armtrain's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import armtrain.nn
from armtrain.cli.main import main

HEAD = """from armtrain import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return {forward}

def make():
    {make}
    return Net()
"""
FORWARD_LINE, MAKE_LINE = 9, 12


def plan(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str], name: str = "make"
) -> tuple[int, str]:
    """Return exit code and message of planning a model file."""
    path = tmp_path / "my.py"
    path.write_text(text)
    args = ["plan", f"{path}:{name}", "-o", str(tmp_path / "m.plan")]
    code = main([*args, "--batch", "2", "--input-shape", "4"])
    err = capsys.readouterr().err
    assert err.count("\n") == (1 if code else 0)
    return code, err


@pytest.mark.parametrize(
    ("forward", "make", "line", "message"),
    [
        ("self.fc(x) if x.shape[0] else 1 / 0", "1 / 0", MAKE_LINE, "ZeroDivisionError: division"),
        ("1 / 0", "pass", FORWARD_LINE, "ZeroDivisionError: division by zero"),
        ("self.fx(x)", "pass", FORWARD_LINE, "AttributeError: 'Net' object has no attribute 'fx'"),
        ("self.fc(x, 3)", "pass", FORWARD_LINE, "TypeError: "),
        ("x.wibble()", "pass", FORWARD_LINE, "AttributeError: "),
        ("self.fc(x)", "nn.Linear(3)", MAKE_LINE, "TypeError: "),
        ("self.fc(x)", "nn.Linaer", MAKE_LINE, "AttributeError: armtrain.nn has no 'Linaer'; did"),
        ("self.fc(x)", "raise KeyError('a')", MAKE_LINE, "KeyError: 'a'"),
        ("self.fc(x)", "raise SystemExit(0)", MAKE_LINE, "SystemExit: 0"),
        ("self.forward(x)", "pass", FORWARD_LINE, "calls below Net nest deeper than Python's"),
        ("self(x)", "pass", FORWARD_LINE, "calls below Net nest deeper than Python's"),
        ("self.fc(x)", "import neither_here", MAKE_LINE, "ModuleNotFoundError: No module"),
    ],
)
def test_a_users_error_names_its_line(
    forward: str,
    make: str,
    line: int,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, err = plan(tmp_path, HEAD.format(forward=forward, make=make), capsys)
    assert code == 1
    assert f"{tmp_path}/my.py:{line}: {message}" in err
    assert "defect" not in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import neither_here\n", ":1: ModuleNotFoundError: No module named 'neither_here'"),
        ("\ndef make(:\n", ":2: SyntaxError: "),
        ("import sys\nsys.exit(3)\n", ":2: SystemExit: 3"),
        ("def mkae():\n    pass\n", " has no callable 'make'; it has mkae"),
        ("from armtrain import nn\nmake = 3\n", " has no callable 'make'; it has none"),
    ],
)
def test_a_file_that_cannot_be_used(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, err = plan(tmp_path, text, capsys)
    assert code == (2 if "has no callable" in message else 1)
    assert f"{tmp_path}/my.py{message}" in err
    assert "defect" not in err


LOUD = """import os
import sys
print("one")
print("two", file=sys.__stdout__)
os.system("echo three")
"""


@pytest.mark.parametrize("broken", [False, True])
def test_what_the_file_prints_stays_out_of_json(broken: bool, tmp_path: Path) -> None:
    text = LOUD + HEAD.format(forward="self.fc(x)", make="print('four')" + "; 1 / 0" * broken)
    (tmp_path / "my.py").write_text(text)
    command = [sys.executable, "-m", "armtrain", "plan", f"{tmp_path}/my.py:make", "--json"]
    done = subprocess.run(
        [*command, "--batch", "2", "--input-shape", "4", "-o", str(tmp_path / "m.plan")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == broken
    assert ("error" in json.loads(done.stdout)) == broken
    assert {"one", "two", "three", "four"} <= set(done.stderr.split("\n"))


def test_a_module_without_forward(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "from armtrain import nn\nclass Net(nn.Module):\n    pass\n"
    code, err = plan(tmp_path, text, capsys, "Net")
    assert code == 1
    assert "Net does not define forward" in err


def test_an_error_of_a_file_beside_the_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "layers_of_mine.py").write_text("def build():\n    return [][1]\n")
    text = "def make():\n    import layers_of_mine\n    return layers_of_mine.build()\n"
    code, err = plan(tmp_path, text, capsys)
    assert code == 1
    assert f"{tmp_path}/layers_of_mine.py:2: IndexError: " in err


def test_a_defect_below_the_users_code_stays_a_defect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tracing = sys.modules[armtrain.nn.trace.__module__]
    monkeypatch.setattr(tracing, "infer_shape", len)
    code, err = plan(tmp_path, HEAD.format(forward="self.fc(x)", make="pass"), capsys)
    assert code == 1
    assert "defect in armtrain (TypeError" in err
    assert "ARMTRAIN_TRACEBACK=1" in err


def test_a_dataclass_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    text += "@dataclass\nclass Sizes:\n    hidden: int = 3\n"
    text += HEAD.format(forward="self.fc(x)", make="assert Sizes().hidden == 3")
    assert plan(tmp_path, text, capsys) == (0, "")


def test_traceback_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "ARMTRAIN_TRACEBACK=1" in capsys.readouterr().out
