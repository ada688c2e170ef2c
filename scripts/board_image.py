"""Build the kernel, the initial RAM disk and the SD card of an emulated board, in build/board.

Usage: python -m scripts.board_image [BOARD ...]

Debian's packages are fetched through apt as this machine is configured and only unpacked: nothing
of the board runs here, nothing is mounted, and no privilege is needed. What was built is kept
until this file changes. `board_machine.py` switches a board on.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import gzip
import hashlib
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "board"
KEY = BUILD / "key"
CARD_MIB = 512  # the controller wants a power of two
FIRST_SECTOR = 2048
SECTOR_BYTES = 512
ENVIRONMENT = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "depmod": "kmod",
    "cpio": "cpio",
    "sfdisk": "fdisk",
    "mkfs.ext4": "e2fsprogs",
    "ssh-keygen": "openssh-client",
}
PACKAGES = "python3 python3-numpy python3-tqdm python3-pip libstdc++6 dropbear-bin busybox-static"
# Packages of static programs that start the system: the program's name, and where it is.
STARTERS = {
    "busybox-static": ("busybox", "bin/busybox"),
    "e2fsck-static": ("e2fsck", "sbin/e2fsck.static"),
}
MODULES = "sdhci-pci mmc_block ext4 crc32c_generic virtio_pci virtio_blk virtio_net virtio_rng"
APPLETS = (
    "base64 cat chown cp cut df dmesg free grep head hostname id init ip kill ls mkdir mknod mount "
    "mv poweroff ps pwd rm sed sh sha256sum sleep stty sync tail touch tr umount uname wc"
)
USELESS = (
    "boot usr/share/doc usr/share/man usr/share/locale usr/share/i18n usr/share/lintian "
    "usr/share/bug usr/lib/python3*/test usr/lib/python3/dist-packages/numpy/*/tests "
    "usr/lib/python3/dist-packages/numpy/core/include"
)

INIT = """#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc; $B mount -t sysfs sys /sys; $B mount -t devtmpfs dev /dev
while read -r m; do $B insmod "/modules/$m" || echo "module $m failed"; done < /modules.list
for w in $($B cat /proc/cmdline); do case $w in root=*) root=${w#root=};; esac; done
n=0; while [ ! -b "$root" ] && [ $n -lt 600 ]; do $B sleep 0.05; n=$((n+1)); done
/bin/e2fsck -p "$root"  # as every Debian system does; 4 and more: not repaired
if [ $? -ge 4 ] || ! $B mount -t ext4 "$root" /newroot; then
    echo "BOARD-FAILED: no file system on $root"
    exec $B poweroff -f
fi
$B mount --move /dev /newroot/dev; $B umount /proc /sys
exec $B switch_root /newroot /sbin/init
"""
RC = """#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys
mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /tmp
mkdir -p /dev/pts; mount -t devpts devpts /dev/pts
[ -O /root ] || chown -R 0:0 /root
hostname -F /etc/hostname; ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0
dropbear -R -s -p 22
echo "BOARD-READY $(cut -d' ' -f1 /proc/uptime)"
"""
ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "group": "root:x:0:\n",
    "shadow": "root:*:19000:0:99999:7:::\n",
    "shells": "/bin/sh\n",
    "hostname": "board\n",
    "profile": "export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin\n",
    "inittab": "::sysinit:/etc/rc\nconsole::respawn:-/bin/sh\n",
    "rc": RC,
}


@dataclass(frozen=True)
class Kernel:
    """A kernel package of Debian."""

    suite: str
    debian: str
    package: str

    @property
    def folder(self) -> Path:
        """Where vmlinuz and initrd.gz are."""
        return BUILD / self.package


@dataclass(frozen=True)
class Board:
    """A kernel, the architecture of the programs on the card, and the machine for both.

    Attributes
    ----------
    name : str
        What the user calls it.
    kernel : Kernel
        What boots.
    debian : str
        Architecture of the card's programs, in Debian's word.
    emulator, machine, model : str
        Program, machine and processor that run it.
    """

    name: str
    kernel: Kernel
    debian: str
    emulator: str
    machine: str
    model: str

    @property
    def card(self) -> Path:
        """The SD card's image; runs work on copies."""
        return BUILD / f"card-{self.debian}" / "card.img"


_ARM64 = Kernel("bookworm", "arm64", "linux-image-arm64")
_ARMHF = Kernel("bookworm", "armhf", "linux-image-armmp")
_ARM64_16K = Kernel("trixie", "arm64", "linux-image-arm64-16k")
_A64 = "qemu-system-aarch64"
BOARDS = {
    b.name: b
    for b in (
        Board("arm64", _ARM64, "arm64", _A64, "virt", "cortex-a53"),
        # Its kernel has no large physical addresses: the PCI bus must be below 4 GiB.
        Board("armhf", _ARMHF, "armhf", "qemu-system-arm", "virt,highmem=off", "cortex-a7"),
        Board("arm64-16k", _ARM64_16K, "arm64", _A64, "virt", "cortex-a76"),
        Board("armhf-on-arm64", _ARM64, "armhf", _A64, "virt", "cortex-a53"),
    )
}


def missing_tools(board: Board) -> list[str]:
    """Return what this machine lacks to build and run a board, in words."""
    wanted = {**TOOLS, board.emulator: "qemu-system-arm", "ssh": "openssh-client"}
    path = ENVIRONMENT["PATH"]
    absent = [(t, p) for t, p in wanted.items() if shutil.which(t, path=path) is None]
    return [f"{tool} is not installed (package {package})" for tool, package in absent]


def run(*command: str | Path, stdin: str | None = None) -> str:
    """Run a tool and return what it printed; SystemExit with its complaint when it fails."""
    done = subprocess.run(
        [str(c) for c in command],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
    )
    if done.returncode:
        sys.exit(f"board_image: {' '.join(map(str, command))} failed:\n{done.stderr.strip()}")
    return done.stdout


def unpack(suite: str, debian: str, packages: Sequence[str], folder: Path) -> None:
    """Fetch packages with all they depend on and unpack them; none is configured."""
    options = ["--quiet", "--variant=extract", f"--arch={debian}"]
    options += ["--dpkgopt=path-exclude=/usr/share/doc/*", f"--include={','.join(packages)}"]
    # Only the superuser may make device files; unpacking needs no other mode's user mapping.
    mode = "root" if os.geteuid() == 0 else "chrootless"
    run("mmdebstrap", f"--mode={mode}", *options, suite, folder)


def needed_modules(tree: Path, release: str) -> list[Path]:
    """Return the files of MODULES and of what they need, in the order of loading."""
    modules = tree / "lib/modules" / release
    run("depmod", "-b", tree, release)
    rows = (line.split(":") for line in (modules / "modules.dep").read_text().splitlines())
    needs = {Path(name): [Path(n) for n in rest.split()] for name, rest in rows}
    names = {path.name.split(".")[0].replace("-", "_"): path for path in needs}
    builtin = (modules / "modules.builtin").read_text().replace("-", "_")
    order: list[Path] = []
    for wanted in (m.replace("-", "_") for m in MODULES.split()):
        if wanted in names:
            # modules.dep lists the nearest need first.
            order += [*reversed(needs[names[wanted]]), names[wanted]]
        elif f"/{wanted}.ko" not in builtin:
            sys.exit(f"board_image: kernel {release} has no module {wanted}")
    return [modules / m for m in dict.fromkeys(order)]


def build_kernel(kernel: Kernel, folder: Path, scratch: Path) -> None:
    """Write vmlinuz and initrd.gz, which loads modules, checks the card and mounts it."""
    tree = scratch / "kernel"
    unpack(kernel.suite, kernel.debian, [kernel.package, *STARTERS], tree)
    if not (tree / "lib").exists():
        (tree / "lib").symlink_to("usr/lib")
    (image,) = (tree / "boot").glob("vmlinuz-*")
    shutil.copy(image, folder / "vmlinuz")
    start = scratch / "initrd"
    for name in ("bin", "dev", "proc", "sys", "newroot", "modules"):
        (start / name).mkdir(parents=True)
    for name, place in STARTERS.values():
        (program,) = (p for p in (tree / place, tree / "usr" / place) if p.exists())
        shutil.copy(program, start / "bin" / name)
    release = image.name.removeprefix("vmlinuz-")
    names = []
    for file in needed_modules(tree, release):
        data = file.read_bytes()
        names.append(file.name.removesuffix(".xz"))
        text = lzma.decompress(data) if file.suffix == ".xz" else data
        (start / "modules" / names[-1]).write_bytes(text)
    (start / "modules.list").write_text("".join(f"{n}\n" for n in names))
    (start / "init").write_text(INIT)
    (start / "init").chmod(0o755)
    archive = scratch / "initrd.cpio"
    listing = "".join(f"{p.relative_to(start)}\n" for p in sorted(start.rglob("*")))
    options = ["-o", "-H", "newc", "--quiet", "--owner=0:0", "-D", str(start), "-F", str(archive)]
    run("cpio", *options, stdin=listing)
    (folder / "initrd.gz").write_bytes(gzip.compress(archive.read_bytes(), 1, mtime=0))


def configure(tree: Path) -> None:
    """Turn unpacked packages into a system that starts: no services but a shell and ssh."""
    for pattern in USELESS.split():
        for found in tree.glob(pattern):
            shutil.rmtree(found)
    (libraries,) = (tree / "usr/lib").glob("*-linux-gnu*")
    for name in ("blas", "lapack"):  # links that configuring the packages would make
        (libraries / f"lib{name}.so.3").symlink_to(f"{name}/lib{name}.so.3")
    for name in ["proc", "sys", "dev", "run", "tmp", "root/.ssh", "etc/dropbear", "sbin", "bin"]:
        (tree / name).mkdir(parents=True, exist_ok=True)
    for applet in APPLETS.split():
        place = tree / ("sbin" if applet == "init" else "bin") / applet
        if not place.exists():
            place.symlink_to("/bin/busybox")
    for name, content in ETC.items():
        (tree / "etc" / name).write_text(content)
    (tree / "etc/rc").chmod(0o755)
    shutil.copy(KEY.with_suffix(".pub"), tree / "root/.ssh/authorized_keys")
    for name in ("root", "root/.ssh", "root/.ssh/authorized_keys"):
        (tree / name).chmod(0o700)
    version = f"python3.{sys.version_info.minor}"
    if (tree / "usr/lib" / version).exists():  # bytecode of another version would be of no use
        folders = [tree / "usr/lib" / version, tree / "usr/lib/python3/dist-packages"]
        run(sys.executable, "-m", "compileall", "-q", "-s", tree, "-p", "/", *folders)


def build_card(debian: str, folder: Path, scratch: Path) -> None:
    """Write card.img: one partition with the system."""
    tree = scratch / "card"
    unpack("bookworm", debian, [*PACKAGES.split(), "openssh-sftp-server"], tree)
    configure(tree)
    image = folder / "card.img"
    image.touch()
    os.truncate(image, CARD_MIB << 20)
    run("sfdisk", "-q", image, stdin=f"label: dos\nstart={FIRST_SECTOR}, type=83\n")
    offset = FIRST_SECTOR * SECTOR_BYTES
    options = ["-q", "-F", "-d", str(tree), "-E", f"offset={offset},root_owner=0:0"]
    run("mkfs.ext4", *options, image, f"{CARD_MIB - 1}M")


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Let one process at a time make what boards share (arm64's kernel also runs armhf cards)."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cached(folder: Path, build: Callable[[Path, Path], None]) -> None:
    """Fill a folder unless that was done by this very file before."""
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    stamp = folder / "recipe"
    with alone(folder.name):
        if stamp.exists() and stamp.read_text() == recipe:
            return
        print(f"building {folder.relative_to(ROOT)}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with tempfile.TemporaryDirectory(dir=BUILD, prefix="scratch-") as scratch:
            build(folder, Path(scratch))
        stamp.write_text(recipe)


def build_board(board: Board) -> None:
    """Build what a board needs and is not there yet; SystemExit when it cannot be done."""
    if absent := missing_tools(board):
        sys.exit(f"board_image: {'; '.join(absent)}")
    with alone("key"):
        if not KEY.exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "board", "-f", KEY)
    cached(board.kernel.folder, lambda folder, scratch: build_kernel(board.kernel, folder, scratch))
    cached(board.card.parent, lambda folder, scratch: build_card(board.debian, folder, scratch))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("board", nargs="*", choices=[[], *BOARDS], help="all of them if none")
    chosen = parser.parse_args(arguments).board or list(BOARDS)
    for name in chosen:
        build_board(BOARDS[name])
        board = BOARDS[name]
        print(f"{name}: {board.kernel.folder.relative_to(ROOT)}, {board.card.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
