"""Write what identifies and describes this board into a folder, for tests and for bug reports.

Usage: python3 capture_board.py FOLDER

Needs nothing but Python 3.7 or newer; copy this one file to the board. The folder mirrors the paths
of the system, `capture.toml` holds what no file tells, and `armtrain doctor --root FOLDER` reads it
anywhere. Serial numbers, hardware addresses and disk identifiers are left out.
"""

from __future__ import annotations

import glob
import json
import mmap
import os
import re
import struct
import subprocess
import sys

# Small files that armtrain reads; patterns of glob.
FILES = (
    "/proc/device-tree/model",
    "/proc/device-tree/compatible",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/cmdline",
    "/proc/mounts",
    "/proc/swaps",
    "/sys/block/*/device/type",
    "/sys/class/thermal/thermal_zone*/temp",
    "/sys/class/thermal/thermal_zone*/type",
    "/sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq",
    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq",
    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/cpu*/cache/index*/level",
    "/sys/devices/system/cpu/cpu*/cache/index*/size",
    "/sys/devices/system/cpu/cpu*/cache/index*/type",
)
# Files of control groups, versions 1 and 2.
GROUP_FILES_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat")
GROUP_FILES_2 = ("memory.max", "memory.current", "memory.stat")
# What must not leave the board: pattern and what stands in its place.
PRIVATE = (
    (re.compile(rb"(?im)^serial\s*:.*\n"), b""),
    (re.compile(rb"\b([0-9a-fA-F]{2}[:-]){5,}[0-9a-fA-F]{2}\b"), b"00:00:00:00:00:00"),
    (re.compile(rb"(?i)(uuid=[\"']?)[^\s\"',]+"), b"\\g<1>0"),
    (re.compile(rb"(?i)(label=[\"']?)[^\s\"',]+"), b"\\g<1>0"),
    (re.compile(rb"(?i)(serial\w*)=\S+"), b"\\1=0"),
    # Names of disks in paths: links that udev makes, and where desktops mount them.
    (re.compile(rb"(/dev/disk/by-\w+/)[^\s\"',]+"), b"\\g<1>0"),
    (re.compile(rb"(/media/)[^\s\"',]+"), b"\\g<1>0"),
    # Identifiers wherever they stand, such as in the name of an encrypted disk.
    (re.compile(rb"(?i)\b[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}\b"), b"0"),
    (re.compile(rb"\b[0-9A-F]{4}-[0-9A-F]{4}\b"), b"0"),
)
CAPTURED_WORD = "vcgencmd_get_throttled.txt"
LARGEST_BYTES = 65536
AT_HWCAP = 16


def without_private(data: bytes) -> bytes:
    """Return a file's content without serial numbers, addresses and identifiers."""
    for pattern, instead in PRIVATE:
        data = pattern.sub(instead, data)
    return data


def write(folder: str, name: str, data: bytes) -> None:
    """Write one file below the folder."""
    path = os.path.join(folder, name.lstrip("/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def hwcap() -> int:
    """Return the first capability word of the auxiliary vector, 0 if it cannot be read."""
    try:
        with open("/proc/self/auxv", "rb") as file:
            data = file.read()
    except OSError:
        return 0
    pair = struct.Struct("@LL")
    whole = len(data) - len(data) % pair.size
    return next((v for key, v in pair.iter_unpack(data[:whole]) if key == AT_HWCAP), 0)


def system() -> str:
    """Return the text of capture.toml."""
    name = os.uname()
    room = os.statvfs("/")
    values = {
        "machine": name.machine,
        "release": name.release,
        "userland_bits": 8 * struct.calcsize("P"),
        "page_bytes": mmap.PAGESIZE,
        "usable_cpus": len(os.sched_getaffinity(0)),
        "storage_path": "/",
        "storage_free_bytes": room.f_bavail * room.f_frsize,
        "hwcap": hwcap(),
        "origin": "captured by capture_board.py",
    }
    # Strings and whole numbers are written alike in JSON and TOML.
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def memory_groups() -> list[str]:
    """Return the files of the control groups that bound this process's memory, outermost last."""
    try:
        with open("/proc/self/cgroup") as file:
            lines = [line.strip().split(":", 2) for line in file]
    except OSError:
        return []
    found = []
    for number, controllers, path in (line for line in lines if len(line) == 3):
        first = "memory" in controllers.split(",")
        if not first and number != "0":
            continue
        base = "/sys/fs/cgroup/memory" if first else "/sys/fs/cgroup"
        names = GROUP_FILES_1 if first else GROUP_FILES_2
        folder = os.path.normpath(base + path)
        while folder.startswith(base):
            found += [os.path.join(folder, name) for name in names]
            folder = os.path.dirname(folder)
    return [*found, "/proc/self/cgroup"]


def throttling_word() -> bytes:
    """Return what the firmware says of throttling; nothing on other boards."""
    try:
        return subprocess.run(
            ["vcgencmd", "get_throttled"], stdout=subprocess.PIPE, timeout=5, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return b""


def capture(folder: str) -> int:
    """Write the folder and return how many files it has."""
    os.makedirs(folder)
    written = 0
    for pattern in (*FILES, *memory_groups()):
        for path in sorted(glob.glob(pattern)):
            try:
                with open(path, "rb") as file:
                    data = file.read(LARGEST_BYTES)
            except OSError:
                continue
            write(folder, path, without_private(data))
            written += 1
    word = throttling_word()
    if word:
        write(folder, CAPTURED_WORD, word)
    write(folder, "capture.toml", system().encode())
    return written + 1 + bool(word)


def main() -> int:
    """Read the command line and capture."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    try:
        count = capture(sys.argv[1])
    except FileExistsError:
        print(f"{sys.argv[1]} exists: name a folder that does not", file=sys.stderr)
        return 4
    print(f"{count} files in {sys.argv[1]}; look through them before you pass them on")
    return 0


if __name__ == "__main__":
    sys.exit(main())
