"""What is missing on a host is named together with the package that brings it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A stand-in for Python: `case` lines decide what `python -c CODE` answers.
FAKE_PYTHON = """#!/bin/sh
case "$2" in
    *print*) echo {version} ;;
    *version_info*) exit {old} ;;
    *ensurepip*) exit {no_venv} ;;
    *) exit {no_headers} ;;
esac
"""


def check(what: str, python: str = sys.executable, **environment: str) -> tuple[int, str]:
    """Run the check and return its exit code and messages."""
    command = [str(ROOT / "scripts" / "check_host.sh"), what, python]
    env = {"PATH": "/usr/bin:/bin", **environment}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_this_host_is_complete() -> None:
    assert check("python") == (0, "")


@pytest.mark.parametrize(
    ("variable", "package"), [("CC", "gcc"), ("AR", "binutils")], ids=["compiler", "archiver"]
)
def test_missing_tool(variable: str, package: str) -> None:
    code, text = check("c", **{variable: "/nowhere/tool"})
    assert code == 1
    assert "/nowhere/tool" in text
    assert f"apt-get install {package}" in text


def test_missing_python() -> None:
    code, text = check("python", "/nowhere/python3")
    assert code == 1
    assert "apt-get install python3" in text


@pytest.mark.parametrize(
    ("fault", "package", "said"),
    [
        ("old", "python3.11", "3.9"),
        ("no_venv", "python3-venv", "ensurepip"),
        ("no_headers", "python3-dev", "Python.h"),
    ],
)
def test_incomplete_python(tmp_path: Path, fault: str, package: str, said: str) -> None:
    answers = {"version": "3.9", "old": 0, "no_venv": 0, "no_headers": 0} | {fault: 1}
    fake = tmp_path / "python3"
    fake.write_text(FAKE_PYTHON.format(**answers))
    fake.chmod(0o755)
    code, text = check("python", str(fake))
    assert code == 1
    assert said in text
    assert package in text
