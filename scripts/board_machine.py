"""Switch an emulated board on: its serial console through pyserial, ssh on loopback, power cuts.

Usage: python -m scripts.board_machine [BOARD] [--memory MiB] [--card FILE]

As a program it builds the board if need be, starts it on a copy of its card, prints the ssh
command, and passes the console through until the board is switched off.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import serial

from scripts.board_image import BOARDS, KEY, Board, build_board

BOOT_SECONDS = 600.0  # when to give up, not what is expected
MARK = "done-with-status="
HISTORY_COUNT = struct.Struct("<16xQ")  # dm-log-writes: magic, version, number of entries
# Storage: its devices, and what the system calls the card's partition. The SD controller asks for
# no flush and the card has no cache: a sector that the card has taken stays. The other disk tells
# the system that it has a cache, so its history shows what was flushed and what was not.
MEDIA = {
    "sd": (["sdhci-pci", "sd-card,drive=card"], "/dev/mmcblk0p1"),
    "cached": (["virtio-blk-pci,drive=card"], "/dev/vda1"),
}


class BoardError(Exception):
    """The board did not say or do what was waited for; the text is the end of its console."""


class Machine:
    """A running board. Leaving the `with` block cuts its power.

    Parameters
    ----------
    board : Board
        What to start; must have been built.
    card : Path
        Image of the card. It is written to: see `fresh_card`. Killing the emulator is a power cut
        between two sectors.
    medium : str
        Key of MEDIA.
    memory_mib, cores : int
        Main memory and processors.
    model : str or None
        Another processor than the board's usual one.
    history : Path or None
        Keep every write to the card in this file, in the format of Linux's dm-log-writes.
    """

    def __init__(
        self,
        board: Board,
        card: Path,
        *,
        medium: str = "sd",
        memory_mib: int = 256,
        cores: int = 1,
        model: str | None = None,
        history: Path | None = None,
    ) -> None:
        self.board = board
        self._folder = tempfile.TemporaryDirectory(prefix="board-")
        self._log = Path(self._folder.name) / "console.log"
        self._last_words = ""
        self._history = history
        devices, root = MEDIA[medium]
        monitor = Path(self._folder.name) / "monitor"
        command = [board.emulator, "-display", "none", "-no-reboot", "-nodefaults", "-S"]
        command += ["-M", board.machine, "-cpu", model or board.model]
        command += ["-smp", str(cores), "-m", str(memory_mib)]
        command += ["-kernel", str(board.kernel.folder / "vmlinuz")]
        command += ["-initrd", str(board.kernel.folder / "initrd.gz")]
        command += ["-append", f"console=ttyAMA0 loglevel=4 panic=-1 root={root}"]
        command += ["-blockdev", _card_node(card, history)]
        command += [word for device in devices for word in ("-device", device)]
        # restrict: the board reaches nothing but this machine's ssh client.
        network = "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:0-:22"
        command += ["-netdev", network, "-device", "virtio-net-pci,netdev=net,romfile="]
        command += ["-device", "virtio-rng-pci"]
        line = "socket,id=line,host=127.0.0.1,port=0,server=on,wait=off"
        command += ["-chardev", f"{line},logfile={self._log}", "-serial", "chardev:line"]
        command += ["-qmp", f"unix:{monitor},server=on,wait=off"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            self._connect(monitor)
        except BaseException:
            self.cut()
            raise

    def _connect(self, monitor: Path) -> None:
        """Open the monitor, ask it for the ports that were free, open the console."""
        self._monitor = socket.socket(socket.AF_UNIX)
        self._wait(lambda: self._try_monitor(monitor), 60.0, "the monitor")
        self._replies = self._monitor.makefile("r", encoding="utf-8")
        self._replies.readline()  # the greeting
        self.ask("qmp_capabilities")
        lines = {c["label"]: c["filename"] for c in self.ask("query-chardev")}
        port = lines["line"].partition(",")[0].rpartition(":")[2]
        self.console_url = f"socket://127.0.0.1:{port}"
        table = self.ask("human-monitor-command", **{"command-line": "info usernet"})
        (row,) = (r.split() for r in table.splitlines() if "HOST_FORWARD" in r)
        self.ssh_port = int(row[3])
        self.console = serial.serial_for_url(self.console_url, timeout=0.05)
        self._heard = ""
        self.ask("cont")  # now that somebody listens

    def _try_monitor(self, path: Path) -> bool:
        """Return whether the monitor's socket could be opened."""
        try:
            self._monitor.connect(str(path))
        except OSError:
            return False
        return True

    def _wait(self, ready: Callable[[], bool], seconds: float, what: str) -> None:
        """Poll until something is true; BoardError when it does not become true."""
        end = time.monotonic() + seconds
        while not ready():
            if not self.is_on():
                raise BoardError(
                    f"{self.board.emulator} ended: {self._complaint()}{self.said()[-2000:]}"
                )
            if time.monotonic() > end:
                raise BoardError(f"no {what} after {seconds:.0f} s:\n{self.said()[-2000:]}")
            time.sleep(0.005)

    def _complaint(self) -> str:
        """Return what the emulator wrote to standard error."""
        return self._process.stderr.read() if self._process.stderr else ""

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    # --- power -----------------------------------------------------------------------------

    def cut(self) -> None:
        """Cut the power: main memory is lost, and with it what was not yet on the card."""
        self._process.kill()
        self._process.wait()
        self._last_words = self.said()
        for thing in ("console", "_replies", "_monitor"):
            with contextlib.suppress(AttributeError, OSError):
                getattr(self, thing).close()
        if self._process.stderr:
            self._process.stderr.close()
        self._folder.cleanup()

    def is_on(self) -> bool:
        """Return whether the board has neither been switched off nor ended by itself."""
        return self._process.poll() is None

    def power_off(self) -> None:
        """Shut down in order and wait for the end."""
        self.write("poweroff -f -d 0\n")
        self._process.wait(BOOT_SECONDS)

    def ask(self, command: str, **arguments: object) -> Any:
        """Return the monitor's answer to a command."""
        text = json.dumps({"execute": command, "arguments": arguments})
        self._monitor.sendall(text.encode() + b"\n")
        for line in self._replies:
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise BoardError(f"{command}: {answer['error']}")
        raise BoardError(f"{command}: the emulator has ended")

    def writes(self) -> int:
        """Return how many writes the card has taken since power came on; needs `history`."""
        assert self._history
        with open(self._history, "rb") as file:
            head = file.read(HISTORY_COUNT.size)
        return int(HISTORY_COUNT.unpack(head)[0]) if len(head) == HISTORY_COUNT.size else 0

    # --- console ---------------------------------------------------------------------------

    def said(self) -> str:
        """Return everything that the console has printed since power came on."""
        return self._log.read_text(errors="replace") if self._log.exists() else self._last_words

    def write(self, text: str) -> None:
        """Type on the console."""
        self.console.write(text.encode())

    def expect(self, text: str, seconds: float = BOOT_SECONDS) -> str:
        """Return what the console prints up to and with `text`; BoardError when it does not."""

        def heard() -> bool:
            self._heard += self.console.read(65536).decode(errors="replace")
            return text in self._heard

        self._wait(heard, seconds, repr(text))
        before, _, self._heard = self._heard.partition(text)
        return before + text

    def boot(self) -> Machine:
        """Wait until the board has started, and take its shell."""
        self.expect("BOARD-READY")
        self.expect("# ")
        self.write(f"stty -echo; PS1=; echo {MARK[:4]}''{MARK[4:]}0.\n")
        self.expect(f"{MARK}0.")
        return self

    def run(self, command: str, seconds: float = BOOT_SECONDS) -> str:
        """Return what a command prints on the console; BoardError when it fails."""
        self.write(f"{command}; echo {MARK[:4]}''{MARK[4:]}$?.\n")
        printed = self.expect(MARK, seconds).removesuffix(MARK).replace("\r\n", "\n")
        status = self.expect(".", seconds)
        if status != "0.":
            raise BoardError(f"{command}: status {status}\n{printed}")
        return printed.lstrip("\n")

    # --- network ---------------------------------------------------------------------------

    @property
    def ssh_options(self) -> list[str]:
        """Options of ssh and scp but for the port; the key and the board exist for tests only."""
        quiet = "-oStrictHostKeyChecking=no -oUserKnownHostsFile=/dev/null -oLogLevel=ERROR"
        return [*quiet.split(), "-oBatchMode=yes", "-i", str(KEY)]

    def ssh(self, command: str) -> str:
        """Return what a command prints when run through ssh; CalledProcessError when it fails."""
        line = ["ssh", *self.ssh_options, "-p", str(self.ssh_port), "root@127.0.0.1", command]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    def put(self, *files: Path, to: str = "/root/") -> None:
        """Copy files to the board through scp."""
        self._scp(*map(str, files), f"root@127.0.0.1:{to}")

    def get(self, name: str, to: Path) -> Path:
        """Copy a file from the board through scp and return where it is."""
        self._scp(f"root@127.0.0.1:{name}", str(to))
        return to

    def _scp(self, *names: str) -> None:
        """Run scp; CalledProcessError when it fails."""
        command = ["scp", "-q", *self.ssh_options, "-P", str(self.ssh_port), *names]
        subprocess.run(command, check=True, capture_output=True, text=True)


def _card_node(card: Path, history: Path | None) -> str:
    """Return the block device behind the card."""
    node: dict[str, object] = {"driver": "file", "filename": str(card)}
    if history is not None:
        history.touch()
        # Its count of writes is kept up to date, but need not survive this machine's power cut.
        log = {"driver": "file", "filename": str(history), "cache": {"no-flush": True}}
        node = {"driver": "blklogwrites", "file": node, "log": log}
        node["log-super-update-interval"] = 1
    return json.dumps({"driver": "raw", "node-name": "card", "file": node})


def fresh_card(source: Path, target: Path) -> Path:
    """Copy a card's image, holes as holes, and return the copy."""
    command = ["cp", "--reflink=auto", "--sparse=always", str(source), str(target)]
    subprocess.run(command, check=True)
    return target


def _pass_through(machine: Machine) -> None:
    """Join the terminal and the console, line by line, until the board is off."""

    def type_lines() -> None:
        for line in sys.stdin:
            machine.write(line)

    threading.Thread(target=type_lines, daemon=True).start()
    with contextlib.suppress(OSError, serial.SerialException):
        while machine.is_on():
            sys.stdout.write(machine.console.read(4096).decode(errors="replace"))
            sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("board", nargs="?", default="arm64", choices=list(BOARDS))
    parser.add_argument("--memory", type=int, default=256, metavar="MiB")
    parser.add_argument("--card", type=Path, help="work on this image instead of on a copy")
    options = parser.parse_args(arguments)
    board = BOARDS[options.board]
    build_board(board)
    with tempfile.TemporaryDirectory(prefix="board-") as folder:
        card = options.card or fresh_card(board.card, Path(folder) / "card.img")
        with Machine(board, card, memory_mib=options.memory) as machine:
            machine.boot()
            login = [*machine.ssh_options, "-p", str(machine.ssh_port), "root@127.0.0.1"]
            print(f"console: {machine.console_url}\nssh {' '.join(login)}", flush=True)
            _pass_through(machine)
    return 0


if __name__ == "__main__":
    sys.exit(main())
