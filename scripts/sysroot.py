"""Unpack Debian systems for ARM below build/sysroots, to run Python on emulated processors.

Usage: sysroot.py [NAME ...] (default: all of SYSROOTS)

Packages are resolved and unpacked by mmdebstrap; nothing of them is run, so neither root nor a
registered emulator is needed. A sysroot stays until its recipe changes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "python3",
    "python3-hypothesis",
    "python3-numpy",
    "python3-pip",
    "python3-pytest",
    "python3-tqdm",
)
NEEDED = {"mmdebstrap": "mmdebstrap", "dpkg-deb": "dpkg"}


@dataclass(frozen=True)
class Sysroot:
    """One release for one architecture.

    Attributes
    ----------
    name : str
        Folder below build/sysroots.
    suite, architecture, triple : str
        As Debian calls them.
    target : str
        Name of the target in scripts/emulate.py whose emulator runs it.
    models : tuple of str
        Processor models; the first is the usual one.
    python : str
        Version of its Python.
    """

    name: str
    suite: str
    architecture: str
    triple: str
    target: str
    models: tuple[str, ...]
    python: str

    @property
    def path(self) -> Path:
        """Folder of the unpacked system."""
        return ROOT / "build" / "sysroots" / self.name

    @property
    def interpreter(self) -> Path:
        """Its Python, an ARM program."""
        return self.path / "usr" / "bin" / f"python{self.python}"

    def recipe(self) -> str:
        """Return what decides about the content, as a checksum."""
        text = repr((self, PACKAGES)) + Path(__file__).read_text(encoding="utf-8")
        return hashlib.sha256(text.encode()).hexdigest()

    def is_ready(self) -> bool:
        """Say whether the folder holds what this file describes."""
        stamp = self.path / ".recipe"
        return stamp.is_file() and stamp.read_text(encoding="utf-8") == self.recipe()


_A64 = ("arm64", "aarch64-linux-gnu", "aarch64", ("cortex-a53", "cortex-a72"))
_A32 = ("armhf", "arm-linux-gnueabihf", "armv7", ("cortex-a7", "cortex-a15"))
SYSROOTS = (
    Sysroot("debian12-arm64", "bookworm", *_A64, "3.11"),
    Sysroot("debian12-armhf", "bookworm", *_A32, "3.11"),
    Sysroot("debian13-arm64", "trixie", *_A64, "3.13"),
    Sysroot("debian13-armhf", "trixie", *_A32, "3.13"),
)


def missing() -> list[str]:
    """Return what is missing here, in words."""
    absent = [(t, p) for t, p in NEEDED.items() if shutil.which(t) is None]
    return [f"{tool} is not installed (package {package})" for tool, package in absent]


def unpack(sysroot: Sysroot) -> None:
    """Unpack a sysroot unless it is there; CalledProcessError when mmdebstrap fails."""
    if sysroot.is_ready():
        return
    part = sysroot.path.with_suffix(".part")
    for old in (part, sysroot.path):
        shutil.rmtree(old, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    command = ["mmdebstrap", "--quiet", "--variant=extract", f"--arch={sysroot.architecture}"]
    # Without root, the mode that changes no root folder is the one that needs nothing set up.
    command += [] if os.geteuid() == 0 else ["--mode=chrootless"]
    command += [
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
    ]
    command += [f"--include={','.join(PACKAGES)}", sysroot.suite, str(part)]
    subprocess.run(command, check=True)
    complete(part, sysroot.triple)
    (part / ".recipe").write_text(sysroot.recipe(), encoding="utf-8")
    part.rename(sysroot.path)


def complete(folder: Path, triple: str) -> None:
    """Make the links that scripts of the packages would have made."""
    if not (folder / "lib").exists():
        (folder / "lib").symlink_to("usr/lib")
    libraries = folder / "usr" / "lib" / triple
    for name in ("blas", "lapack"):
        link = libraries / f"lib{name}.so.3"
        if not link.exists():
            link.symlink_to(f"{name}/lib{name}.so.3")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 when all sysroots are there."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [s.name for s in SYSROOTS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(names):
        parser.error(f"there is no sysroot {', '.join(sorted(unknown))}: known are {names}")
    if absent := missing():
        print("; ".join(absent), file=sys.stderr)
        return 1
    for sysroot in SYSROOTS:
        if not options.names or sysroot.name in options.names:
            unpack(sysroot)
            print(f"{sysroot.name}: {sysroot.path}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
