"""What a cross build takes from this machine, and which build is for which board."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import cross_build
from scripts.cross_build import ROOT, TARGETS, BuildError, Target

HOST_FLAGS = "-march=native -mtune=native -I/usr/include -I/usr/include/x86_64-linux-gnu"
WITH_WHEEL = [t for t in TARGETS if t.triple]


def hostile() -> dict[str, str]:
    """Return an environment full of what is meant for this machine."""
    names = ("CC", "AR", "CFLAGS", "CPPFLAGS", "LDFLAGS", "OPT", "ARCH", "CPATH", "FLAGS_BASE")
    return dict(os.environ) | dict.fromkeys(names, HOST_FLAGS)


@pytest.mark.parametrize("target", TARGETS, ids=[t.name for t in TARGETS])
def test_compile_lines_hold_nothing_of_this_machine(target: Target) -> None:
    """Neither native tuning nor this machine's headers, even when the environment asks for them."""
    command = ["make", "--dry-run", "--always-make", "-s", f"CROSS={target.name}", "run"]
    done = subprocess.run(
        command, cwd=ROOT, env=hostile(), capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stdout.splitlines() if " -c " in line]
    assert len(lines) > 30
    for line in lines:
        assert "native" not in line
        assert re.findall(r"-I(\S+)", line) == ["kernels", "kernels/include"]


def test_steps_of_a_build_see_a_clean_environment() -> None:
    kept = cross_build.clean_environment(hostile())
    assert "native" not in " ".join(kept.values())
    assert kept["PATH"] == os.environ["PATH"]
    assert kept["SOURCE_DATE_EPOCH"]


def test_unknown_target_is_refused() -> None:
    command = ["make", "--dry-run", "CROSS=mips", "lib"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "aarch64 armv7 armv6" in done.stderr


def test_missing_compiler_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With this machine's compiler alone there is no build for another one."""
    here = ("make", "sh", "cut", "python3", "gcc", "cc", "ar", "mkdir")
    for name in here:
        where = subprocess.run(["which", name], capture_output=True, text=True, check=False)
        if where.returncode == 0:
            (tmp_path / name).symlink_to(where.stdout.strip())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cross_build.main(["aarch64", "--only", "run"]) == 1
    said = capsys.readouterr().err
    assert "no C compiler (aarch64-linux-gnu-gcc) found" in said
    assert "apt-get install gcc-aarch64-linux-gnu" in said


@pytest.mark.parametrize("target", WITH_WHEEL, ids=[t.name for t in WITH_WHEEL])
def test_python_headers_have_the_sizes_of_the_target(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number of this machine is left in the copy of pyconfig.h."""
    monkeypatch.setattr(cross_build, "ROOT", tmp_path)
    folder = cross_build.python_headers(target)
    config = (folder / "pyconfig.h").read_text()
    assert not re.findall(r"^#define (?:SIZEOF|ALIGNOF)_\w+ \d", config, re.MULTILINE)
    assert "#define SIZEOF_LONG __SIZEOF_LONG__" in config
    assert "HAVE_GCC_ASM_FOR_X64" not in config
    assert (folder / "Python.h").is_file()
    assert not (folder / "pyconfig.h").is_symlink()


@pytest.mark.parametrize(
    ("board", "bits", "name"),
    [
        ("raspberrypi-4b", None, "aarch64"),
        ("raspberrypi-4b", 32, "armv7"),
        ("raspberrypi-5", None, "aarch64"),
        ("raspberrypi-zero-2-w", None, "aarch64"),
        ("raspberrypi-zero-w", None, "armv6"),
        ("odroid-xu4", None, "armv7"),
        ("odroid-c4", 64, "aarch64"),
    ],
)
def test_board_names_its_build(board: str, bits: int | None, name: str) -> None:
    """The userland decides, not the kernel."""
    assert cross_build.target_of_board(board, bits).name == name


@pytest.mark.parametrize(
    ("board", "bits", "said"),
    [
        ("raspberrypi-zero-w", 64, "bits that its profile names: 32"),
        ("odroid-xu4", 64, "bits that its profile names: 32"),
        ("host", None, "make wheel run"),
        ("nonesuch", None, "nonesuch"),
    ],
)
def test_board_without_a_build_is_refused(board: str, bits: int | None, said: str) -> None:
    with pytest.raises(BuildError, match=re.escape(said)):
        cross_build.target_of_board(board, bits)


@pytest.mark.parametrize(
    "arguments",
    [
        ["mips"],
        ["aarch64", "--board", "odroid-c4"],
        ["--only", "all"],
        ["armv7", "--userland-bits", "32"],
    ],
)
def test_usage_errors(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "scripts.cross_build", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage:" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["--board", "raspberrypi-zero-w"], "armv6 (raspberrypi-zero-w)"),
        (["armv6"], "armv6"),
        (["aarch64", "armv6"], "armv6"),
    ],
)
def test_wheel_that_there_is_not_is_refused(
    arguments: list[str],
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is built then, not even what there is."""
    monkeypatch.setattr(cross_build, "build", pytest.fail)
    assert cross_build.main([*arguments, "--only", "wheel"]) == 1
    said = capsys.readouterr().err
    assert f"there is no wheel for {name}: its boards train with armtrain-run" in said
    assert "`make cross-v6`" in said
