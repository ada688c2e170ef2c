"""Install the ARM wheels into Debian systems and run the Python tests on emulated processors.

Usage: emulate_python.py [--only NAME] [PYTEST_ARGUMENT ...]

The wheels are those of dist/, the systems those of scripts/sysroot.py. A wheel is installed by the
system's own pip, and the tests run in a copy of the tree without the package's sources, so that
nothing but the installed package can be imported. SUITES says what runs where; emulated time says
nothing about a board's speed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from signal import SIGHUP, SIGINT

from scripts.emulate import ROOT, TARGETS, Target
from scripts.sysroot import SYSROOTS, Sysroot, unpack
from scripts.sysroot import missing as missing_tools
from tests.ops.conftest import WANTED
from tests.ops.covering import covering

TIMEOUT = 1800  # seconds for one suite
WHEEL_TAGS = {"aarch64": "aarch64", "armv7": "armv7l"}
FOLDERS = ("boards", "docs", "kernels", "scripts", "tests")
FILES = ("CHANGELOG.md", "README.md", "pyproject.toml")
# What depends on Python and NumPy: detection, readers, files, real cases, checkpoints.
CORE = (
    "tests/unit/board",
    "tests/unit/data",
    "tests/unit/io",
    "tests/cases",
    "tests/integration/test_engine_module.py",
    "tests/integration/test_training.py",
)
# What depends on the processor: values, levels and threads, with the cases of
# tests/ops/covering.py. The other tests of operations are of the planner and of layouts, the same
# everywhere.
OPERATIONS = (
    *CORE,
    "tests/golden",
    *(
        f"tests/ops/test_engine.py::{name}"
        for name in (
            "test_every_step_agrees_with_the_reference",
            "test_levels_agree",
            "test_threads_and_poison_do_not_change_a_bit",
        )
    ),
)
# Not here: tests/integration that kill and restart processes for minutes, of which
# tests/emulated/test_python.py has one of its own.
PROGRAMS = (
    *CORE,
    "tests/integration/test_armtrain_run.py",
    "tests/integration/test_bad_values.py",
    "tests/integration/test_cli.py",
    "tests/integration/test_kernel_choice.py",
)
# Both releases get the same wheels, so that every operation is compared with its reference once
# for an architecture; programs run where words are smallest.
# The longest is first: suites start in this order, as many at a time as there are processors.
SUITES = {
    "debian12-armhf": OPERATIONS,
    "debian13-arm64": OPERATIONS,
    "debian13-armhf": PROGRAMS,
    "debian12-arm64": CORE,
}
# Left out: what measures a process, processes that only make plans (tests/emulated does that), the
# reference's arithmetic in double, which is NumPy's alone, and all signals but one.
SELECTED = "not emulated and not own_process"
LEFT_OUT = (
    "tests/cases/test_plan_layout.py::test_plan_19_the_same_bytes_in_every_process",
    "tests/golden/test_golden.py::test_reference_follows_torch_in_double",
    "tests/golden/test_golden.py::test_engine_ends_as_near_to_double_as_torch",
    *(
        f"tests/integration/test_armtrain_run.py::test_signal_leaves_a_checkpoint[{number:d}]"
        for number in (SIGHUP, SIGINT)
    ),
)
# A test that starts sys.executable starts a script that this machine can run.
_SITE = "import os\nimport sys\n\nsys.executable = os.environ['ARMTRAIN_PYTHON']\n"


@dataclass(frozen=True)
class Installed:
    """A sysroot with the wheel of its architecture."""

    sysroot: Sysroot

    @property
    def target(self) -> Target:
        """The target that builds for it and runs its programs."""
        return next(t for t in TARGETS if t.name == self.sysroot.target)

    @property
    def folder(self) -> Path:
        """What belongs to it: bin, bytecode, site (the wheel), tree (the tests)."""
        return ROOT / "build" / "emulated" / self.sysroot.name

    @property
    def tree(self) -> Path:
        """The copy of the tree without the package."""
        return self.folder / "tree"

    def wheel(self) -> Path | None:
        """Return the newest wheel for it in dist/, None when there is none."""
        wheels = (ROOT / "dist").glob(f"armtrain-*_{WHEEL_TAGS[self.target.name]}.whl")
        return max(wheels, key=lambda path: path.stat().st_mtime, default=None)

    def missing(self) -> list[str]:
        """Return what is missing, in words."""
        absent = self.target.missing()
        absent += [] if self.sysroot.is_ready() else missing_tools()
        if self.wheel() is None:
            absent.append(f"dist/ has no wheel for {WHEEL_TAGS[self.target.name]}")
        return absent

    def emulator(self, model: str) -> list[str]:
        """Return the command that runs the ARM program that follows it."""
        return [self.target.emulator, "-cpu", model, "-L", str(self.sysroot.path)]

    def script(self, name: str, program: Path, model: str, settings: str = "") -> Path:
        """Write a script that runs an ARM program on a processor model, and return it."""
        path = self.folder / "bin" / model / name
        command = shlex.join([*self.emulator(model), str(program)])
        text = f'#!/bin/sh\n{settings}exec {command} "$@"\n'
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)
        return path

    def python(self, model: str) -> Path:
        """Return the system's Python on a processor model, with the package."""
        path = self.folder / "bin" / model / "python3"
        places = f"{self.folder / 'start'}:{self.folder / 'site'}"
        lines = (
            f"PYTHONPATH={shlex.quote(places)}${{PYTHONPATH:+:$PYTHONPATH}}",
            f"ARMTRAIN_PYTHON={shlex.quote(str(path))}",
            # Nothing that is unpacked has been compiled, which every start would do again.
            f"PYTHONPYCACHEPREFIX={shlex.quote(str(self.folder / 'bytecode'))}",
            "export PYTHONPATH ARMTRAIN_PYTHON PYTHONPYCACHEPREFIX",
            "unset PYTHONDONTWRITEBYTECODE",
        )
        settings = "".join(f"{line}\n" for line in lines)
        return self.script("python3", self.sysroot.interpreter, model, settings)

    def armtrain_run(self, model: str) -> Path:
        """Return the trainer without Python on a processor model."""
        return self.script("armtrain-run", self.target.build / "armtrain-run", model)

    def install(self, model: str) -> Path:
        """Unpack and install what is missing or has changed; return the Python."""
        unpack(self.sysroot)
        python = self.python(model)
        start = self.folder / "start" / "sitecustomize.py"
        start.parent.mkdir(parents=True, exist_ok=True)
        start.write_text(_SITE, encoding="utf-8")
        self._install_wheel(model)
        return python

    def _install_wheel(self, model: str) -> None:
        """Install the wheel with the system's pip, unless it is installed."""
        wheel = self.wheel()
        assert wheel is not None, "missing() was asked first"
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest() + self.sysroot.recipe()
        site, stamp = self.folder / "site", self.folder / "site.stamp"
        if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
            return
        for old in (site, self.folder / "bytecode"):
            shutil.rmtree(old, ignore_errors=True)
        # pip reads the program that runs it, to know what its floats are passed in.
        command = [*self.emulator(model), str(self.sysroot.interpreter), "-m", "pip", "install"]
        command += ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
        command += ["--no-compile"]
        command += ["--target", str(site), str(wheel)]
        subprocess.run(command, check=True, env=os.environ | {"PIP_ROOT_USER_ACTION": "ignore"})
        stamp.write_text(digest, encoding="utf-8")

    def copy_tree(self, model: str) -> None:
        """Copy what tests need besides the package."""
        shutil.rmtree(self.tree, ignore_errors=True)
        self.tree.mkdir(parents=True)
        for name in FILES:
            shutil.copy2(ROOT / name, self.tree / name)
        for name in FOLDERS:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, self.tree / name, ignore=ignored)
        runner = self.tree / "build" / "armtrain-run"
        runner.parent.mkdir()
        runner.symlink_to(self.armtrain_run(model))


def run_suite(
    installed: Installed, model: str, arguments: Sequence[str], settings: dict[str, str]
) -> bool:
    """Run a system's tests on a processor model, print how they ended, return whether well."""
    begin = time.monotonic()
    python = installed.install(model)
    installed.copy_tree(model)
    command = [str(python), "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-m", SELECTED, *(f"--deselect={test}" for test in LEFT_OUT)]
    environment = os.environ | {"HYPOTHESIS_PROFILE": "emulated"} | settings
    log = installed.folder / f"pytest-{model}.txt"
    with log.open("w", encoding="utf-8") as output:
        try:
            code = subprocess.run(
                [*command, *arguments],
                cwd=installed.tree,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = 124
            print(f"no end after {TIMEOUT} s", file=output)
    lines = log.read_text(encoding="utf-8").strip().splitlines() or ["(silent)"]
    verdict = "ok" if code == 0 else f"FAILED ({code})"
    name, seconds = installed.sysroot.name, time.monotonic() - begin
    text = "\n".join(f"    {line}" for line in (lines if code else lines[-1:]))
    print(f"{name} {model}: {verdict}, {seconds:.0f} s\n{text}", flush=True)
    return code == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 when nothing failed."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=[s.name for s in SYSROOTS], help="one system")
    parser.add_argument("--model", help="processor model; default: the system's first")
    parser.add_argument("arguments", nargs="*", help="for pytest, instead of SUITES")
    options = parser.parse_args(arguments)
    systems = {s.name: Installed(s) for s in SYSROOTS}
    chosen = [systems[name] for name in SUITES if options.only in (None, name)]
    if absent := sorted({text for i in chosen for text in i.missing()}):
        print("; ".join(absent), file=sys.stderr)
        return 1
    for target in {i.target.name: i.target for i in chosen}.values():
        target.make("run")
    settings = {} if options.arguments else {WANTED: " ".join(covering())}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            pool.submit(
                run_suite,
                installed,
                options.model or installed.sysroot.models[0],
                options.arguments or SUITES[installed.sysroot.name],
                settings,
            )
            for installed in chosen
        ]
        results = [job.result() for job in jobs]
    print(f"emulated Python suites: {results.count(True)} passed, {results.count(False)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
