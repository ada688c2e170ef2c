"""The source distribution builds a wheel, and the wheel works far away from the source tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IMPORT_RSS_KIB = 32 * 1024


def run(command: list[str], cwd: Path, **environment: str) -> str:
    """Run a command that must succeed and return what it printed."""
    env = {k: v for k, v in os.environ.items() if k != "MAKEFLAGS"} | environment
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the source distribution."""
    out = tmp_path_factory.mktemp("sdist")
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(out)!r})"
    run([sys.executable, "-c", code], ROOT)
    (path,) = out.glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel built from the unpacked source distribution."""
    tree = tmp_path_factory.mktemp("tree")
    out = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(tree, filter="data")
    (source,) = tree.iterdir()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    run([*pip, "--no-build-isolation", "--no-deps", "--wheel-dir", str(out), "."], source)
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel's content, as pip would lay it out."""
    target = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def python(installed: Path, cwd: Path, *args: str) -> str:
    """Run Python in `cwd` so that it finds the installed package first."""
    return run([sys.executable, *args], cwd, PYTHONPATH=str(installed), PYTHONSAFEPATH="1")


def test_sdist_holds_what_a_build_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    needed = {"Makefile", "LICENSE", "kernels/kernels.mk", "kernels/include/armtrain.h"}
    kernels = {
        str(p.relative_to(ROOT))
        for suffix in ("c", "h", "def", "inc", "pyx", "pxd")
        for p in (ROOT / "kernels").rglob(f"*.{suffix}")
    }
    generated = {n for n in kernels if n.startswith("kernels/cython/") and n.endswith(".c")}
    assert needed | (kernels - generated) <= names
    built = [n for n in names if n.endswith((".so", ".o", ".a", ".pyc")) or n in generated]
    assert not built


@pytest.mark.slow
def test_wheel_is_tagged_for_the_stable_abi(wheel: Path) -> None:
    assert "-cp311-abi3-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(n for n in names if n.endswith(".dist-info/METADATA"))
        requirements = [
            line.split(":", 1)[1].strip()
            for line in archive.read(metadata).decode().splitlines()
            if line.startswith("Requires-Dist:") and "extra ==" not in line
        ]
    assert sorted(requirements) == ["numpy>=1.24", "tqdm"]
    assert {"armtrain/_engine.abi3.so", "armtrain/_packer.abi3.so"} <= set(names)
    assert "armtrain/py.typed" in names
    assert any(n.startswith("armtrain/boards/") and n.endswith(".toml") for n in names)
    assert not [n for n in names if n.endswith((".pyx", ".c", ".h"))]
    assert not [n for n in names if not n.startswith(("armtrain/", "armtrain-"))]


@pytest.mark.slow
def test_installed_wheel_trains_in_another_directory(installed: Path, tmp_path: Path) -> None:
    where = python(installed, tmp_path, "-c", "import armtrain; print(armtrain.__file__)")
    assert Path(where.strip()).is_relative_to(installed)
    model = "zoo:lenet5"
    plan = ["-m", "armtrain", "plan", model, "-o", "net.plan", "--batch", "4", "--json"]
    numbers = json.loads(python(installed, tmp_path, *plan))
    assert numbers["arena_bytes"] >= numbers["lower_bound_bytes"] > 0
    train = ["-m", "armtrain", "train", "net.plan", "--data", "random:samples=8", "--epochs", "1"]
    python(installed, tmp_path, *train, "--save", "net.safetensors")
    assert (tmp_path / "net.safetensors").stat().st_size > 4 * 44_426


@pytest.mark.slow
def test_import_is_light(installed: Path, tmp_path: Path) -> None:
    code = (
        "import armtrain, re, pathlib\n"
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', status).group(1))"
    )
    assert int(python(installed, tmp_path, "-c", code)) <= IMPORT_RSS_KIB
