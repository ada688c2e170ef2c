"""Facts about a machine, read from captured files, and the warnings they lead to."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from armtrain.board.identity import CAPTURE, decimal, read_system
from armtrain.errors import PlanError
from armtrain.runtime.machine import (
    Machine,
    cgroup_memory,
    filesystem_of,
    hindrances,
    kernel_hindrances,
    meminfo,
    read_machine,
)

_FILES = ("active_file", "inactive_file")
_NAMES_V1 = (
    "limit_in_bytes",
    "usage_in_bytes",
    *map("total_{}".format, _FILES),
    "total_mapped_file",
)
_NAMES_V2 = ("max", "current", *_FILES, "file_mapped")

GOOD = Machine(
    model="Raspberry Pi 4 Model B Rev 1.4",
    architecture="aarch64",
    kernel_release="6.12",
    userland_bits=64,
    page_bytes=4096,
    cpus_online=4,
    cpus_usable=4,
    memory_total_bytes=4 << 30,
    memory_available_bytes=3 << 30,
    swap_total_bytes=0,
    cgroup_limit_bytes=None,
    cgroup_used_bytes=None,
    storage_path="/home/pi",
    filesystem="ext4",
    storage_free_bytes=8 << 30,
    command_line="console=tty1",
)


def tree(root: Path, **files: str) -> Path:
    """Write files; '/' is spelled '__'."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_this_machine_is_read() -> None:
    machine = read_machine()
    assert machine.cpus_usable >= 1
    assert machine.page_bytes in (4096, 16384, 65536)
    assert machine.userland_bits in (32, 64)
    assert machine.storage_free_bytes > 0


def test_board_model_and_memory(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        proc__meminfo="MemTotal:  1000 kB\nMemAvailable: 500 kB\nHugePages_Total: 3\n",
        **{"proc__device-tree__model": "Raspberry Pi Zero 2 W Rev 1.0\0"},
    )
    machine = read_machine(root, str(tmp_path))
    assert machine.model == "Raspberry Pi Zero 2 W Rev 1.0"
    assert machine.memory_available_bytes == 512_000
    assert machine.swap_total_bytes is None
    assert meminfo("HugePages_Total: 3") == {"HugePages_Total": 3}


def test_model_name_of_a_pc(tmp_path: Path) -> None:
    root = tree(tmp_path, proc__cpuinfo="model\t\t: 85\nmodel name\t: Some CPU\n")
    assert read_machine(root, str(tmp_path)).model == "Some CPU"


def test_tightest_limit_of_version_2(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        proc__self__cgroup="0::/user.slice/job\n",
        **{
            "sys__fs__cgroup__user.slice__memory.max": "1000000\n",
            "sys__fs__cgroup__user.slice__memory.current": "400\n",
            "sys__fs__cgroup__user.slice__job__memory.max": "max\n",
        },
    )
    assert cgroup_memory(root) == (1_000_000, 400)


@pytest.mark.parametrize(
    ("outer", "outer_used", "told"),
    [(1_500_000, 1_400_000, (1_500_000, 1_400_000)), (1_500_000, 300_000, (1_000_000, 10))],
)
def test_the_group_that_leaves_least_counts(
    tmp_path: Path, outer: int, outer_used: int, told: tuple[int, int]
) -> None:
    root = tree(
        tmp_path,
        proc__self__cgroup="0::/a/b\n",
        **{
            "sys__fs__cgroup__a__memory.max": f"{outer}\n",
            "sys__fs__cgroup__a__memory.current": f"{outer_used}\n",
            "sys__fs__cgroup__a__b__memory.max": "1000000\n",
            "sys__fs__cgroup__a__b__memory.current": "10\n",
        },
    )
    assert cgroup_memory(root) == told
    assert read_machine(root, str(tmp_path)).memory_usable_bytes == told[0] - told[1]


def test_limit_of_version_1(tmp_path: Path) -> None:
    files = {
        "sys__fs__cgroup__memory__job__memory.limit_in_bytes": "5000\n",
        "sys__fs__cgroup__memory__memory.limit_in_bytes": "9223372036854771712\n",
    }
    root = tree(tmp_path, proc__self__cgroup="3:cpu:/x\n2:memory:/job\n", **files)
    assert cgroup_memory(root) == (5000, None)


@pytest.mark.parametrize(
    ("files", "mapped", "droppable"),
    [
        (0, 0, 0),
        (3000, 0, 1500),
        (3000, 1000, 1000),
        (3000, 4000, 0),
        (64 << 20, 8 << 20, 52 << 20),
    ],
)
@pytest.mark.parametrize(
    ("group", "folder", "names"),
    [
        ("2:memory:/a\n", "memory__a", _NAMES_V1),
        ("0::/a\n", "a", _NAMES_V2),
    ],
)
def test_mapped_files_and_some_others_stay(
    *,
    tmp_path: Path,
    group: str,
    folder: str,
    names: tuple[str, ...],
    files: int,
    mapped: int,
    droppable: int,
) -> None:
    limit, used, active, inactive, in_use = names
    stat = f"{active} {files - files // 3}\n{inactive} {files // 3}\n{in_use} {mapped}\n"
    contents = {limit: str(1 << 30), used: str(100 << 20), "stat": stat}
    root = tree(
        tmp_path,
        proc__self__cgroup=group,
        **{f"sys__fs__cgroup__{folder}__memory.{key}": text for key, text in contents.items()},
    )
    assert cgroup_memory(root) == (1 << 30, (100 << 20) - droppable)


@pytest.mark.parametrize("word", ["9" * 5000, "-5", "abc", "", "\u0663"])
def test_what_is_no_number_says_nothing(tmp_path: Path, word: str) -> None:
    assert decimal(word) is None
    root = tree(
        tmp_path,
        proc__meminfo=f"MemTotal: {word} kB\nMemFree: 1 kB\n",
        proc__self__cgroup="0::/a\n",
        **{
            "sys__fs__cgroup__a__memory.max": word,
            "sys__fs__cgroup__memory.max": "5000",
            "sys__fs__cgroup__memory.current": "900",
            "sys__fs__cgroup__memory.stat": f"active_file {word}\ninactive_file 500\n",
        },
    )
    machine = read_machine(root, str(tmp_path))
    assert (machine.memory_total_bytes, machine.memory_usable_bytes) == (None, 4350)


def test_a_captured_number_of_many_digits(tmp_path: Path) -> None:
    (tmp_path / CAPTURE).write_text(f"page_bytes = {'9' * 5000}\n")
    with pytest.raises(PlanError, match="cannot read the captured machine"):
        read_system(tmp_path)


def test_no_limit(tmp_path: Path) -> None:
    assert cgroup_memory(tmp_path) == (None, None)


def test_filesystem_is_that_of_the_longest_mount() -> None:
    mounts = "/dev/root / ext4 rw 0 0\n/dev/sda /media/my\\040card vfat rw 0 0\nbroken\n"
    assert filesystem_of("/home", mounts) == "ext4"
    assert filesystem_of("/media/my card/x", mounts) == "vfat"
    assert filesystem_of("/", mounts) == "ext4"
    assert filesystem_of("/", "") == "unknown"


def test_good_machine_has_no_hindrance() -> None:
    assert hindrances(GOOD) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"userland_bits": 32}, "64-bit"),
        ({"memory_available_bytes": 1 << 20}, "1048576 B of memory"),
        ({"cgroup_limit_bytes": 1 << 28}, "control group"),
        ({"command_line": "x cgroup_disable=memory"}, "not enforced"),
        ({"storage_free_bytes": 5}, "5 B free"),
        ({"storage_free_bytes": None, "storage_path": "unknown"}, "may have been deleted"),
        ({"filesystem": "vfat"}, "power failure"),
        ({"filesystem": "tmpfs"}, "vanish"),
    ],
)
def test_every_hindrance_has_a_remedy(change: dict[str, object], word: str) -> None:
    (found,) = hindrances(replace(GOOD, **change))
    assert word in found.problem
    assert len(found.remedy) > 20


def test_a_group_that_is_nearly_used_up_is_told_whatever_its_limit() -> None:
    group = replace(GOOD, cgroup_limit_bytes=3_900_000_000, cgroup_used_bytes=3_890_000_000)
    little, limited = hindrances(group)
    assert "only 10000000 B of memory" in little.problem
    assert "limits this process to 3900000000 B, of which 10000000 B are left" in limited.problem
    assert hindrances(replace(group, cgroup_used_bytes=100_000_000)) == []


@pytest.mark.parametrize(
    ("level", "levels", "neon", "cap", "word"),
    [
        ("c", ["c"], False, "", "only the plain C kernels run"),
        ("c", ["c"], True, "", "has NEON, but the engine chose the plain C"),
        ("c", ["c"], True, "c", "ARMTRAIN_CPU=c of the environment allows"),
        ("vec_sse2", ["c", "vec_sse2"], False, "sse9", "ARMTRAIN_CPU=sse9 .* no kernel level"),
    ],
)
def test_kernels_that_should_be_better(
    level: str, levels: list[str], neon: bool, cap: str, word: str
) -> None:
    (found,) = kernel_hindrances(level, levels, neon=neon, cap=cap)
    assert re.search(word, found.problem)
    assert len(found.remedy) > 20


def test_good_kernels_are_no_hindrance() -> None:
    assert kernel_hindrances("neon_a64", ["c", "neon_a64"], neon=True, cap="") == []
    assert kernel_hindrances("neon_a32", ["c", "neon_a32"], neon=True, cap="neon_a32") == []


def test_a_machine_that_calls_itself_armv8l_is_told_how_pip_installs() -> None:
    """Pip 23.0.1 offers such a machine wheels for armv8l alone, of which there are none."""
    changed = replace(GOOD, architecture="armv8l", userland_bits=32)
    (found,) = (h for h in hindrances(changed) if "pip before 24.1" in h.problem)
    assert "setarch linux64" in found.remedy
    assert not any("pip" in h.problem for h in hindrances(replace(changed, architecture="armv7l")))
