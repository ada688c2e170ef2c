"""The README's quick start runs as printed, in one directory, with the programs on the path."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from armtrain.demos.digits import plan_digits

ROOT = Path(__file__).resolve().parents[2]


def blocks(language: str, document: str = "README.md") -> list[str]:
    """Return the fenced code blocks of one language."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which `armtrain` and `armtrain-run` are commands."""
    programs = tmp_path / "bin"
    programs.mkdir()
    front = programs / "armtrain"
    front.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m armtrain "$@"\n')
    front.chmod(0o755)
    (programs / "armtrain-run").symlink_to(ROOT / "build" / "armtrain-run")
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def test_quick_start_runs_as_printed(tmp_path: Path, environment: dict[str, str]) -> None:
    """Python block, then shell block, in the same directory."""
    (python,), (shell,) = blocks("python"), blocks("sh")
    for command in ([sys.executable, "-c", python], ["sh", "-e", "-c", shell]):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    for name in ("small.safetensors", "digits.html", "digits-run"):
        assert (tmp_path / name).exists(), name


def test_recurrent_example_runs_as_printed(tmp_path: Path, environment: dict[str, str]) -> None:
    (python,) = blocks("python", "docs/recurrent.md")
    done = subprocess.run(
        [sys.executable, "-c", python],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_has_the_arena_of_the_demo() -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"an arena of {plan_digits().arena_bytes:,} bytes" in text
