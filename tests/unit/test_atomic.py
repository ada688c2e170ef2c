"""Whole files or nothing: order of system calls, failures, kept content."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from armtrain.atomic import atomic_writer, check_target, write_bytes
from armtrain.errors import StorageError


def test_order_of_a_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def spy_fsync(descriptor: int) -> None:
        what = "dir" if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir() else "file"
        calls.append(f"fsync {what}")
        fsync(descriptor)

    def spy_replace(source: Path, target: Path) -> None:
        assert Path(source).parent == Path(target).parent
        calls.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "replace", spy_replace)
    write_bytes(tmp_path / "f", b"abc")
    assert calls == ["fsync file", "rename", "fsync dir"]
    assert (tmp_path / "f").read_bytes() == b"abc"


def test_failure_keeps_the_old_file_and_leaves_no_other(tmp_path: Path) -> None:
    target = tmp_path / "f"
    target.write_bytes(b"old")

    def fail_half_way() -> None:
        with atomic_writer(target) as file:
            file.write(b"new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_full_disk_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    target = tmp_path / "f"
    target.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"No space left.* B free in .*unchanged; free some"):
        write_bytes(target, b"new")
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_failing_directory_sync_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def fail_on_directories(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir():
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_on_directories)
    with pytest.raises(StorageError, match="Input/output error"):
        write_bytes(tmp_path / "f", b"new")


def test_missing_directory_and_devices(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist; create it"):
        write_bytes(tmp_path / "none" / "f", b"")
    with pytest.raises(StorageError, match="not a regular file"):
        write_bytes("/dev/null", b"")
    with pytest.raises(StorageError, match="not a regular file"):
        write_bytes(tmp_path, b"")


def test_symbolic_link_is_followed(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def mode_of(path: Path) -> int:
    """Return the permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_replaced_file_hands_on_its_mode(tmp_path: Path) -> None:
    for mode in (0o600, 0o640, 0o444, 0o664):
        target = tmp_path / f"f{mode:o}"
        target.write_bytes(b"old")
        target.chmod(mode)
        write_bytes(target, b"new")
        assert (target.read_bytes(), mode_of(target)) == (b"new", mode)


def test_new_files_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "f", b"new")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "f") == 0o640


def test_nobody_reads_a_private_file_while_it_is_written(tmp_path: Path) -> None:
    target = tmp_path / "f"
    target.write_bytes(b"old")
    target.chmod(0o600)
    with atomic_writer(target):
        (temporary,) = tmp_path.glob(".f.*.tmp")
        assert mode_of(temporary) == 0o600


def test_another_group_does_not_get_the_old_groups_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "f"
    target.write_bytes(b"old")
    target.chmod(0o660)
    found = target.stat()
    foreign = os.stat_result((*found[:5], found.st_gid + 1, *found[6:]))

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    monkeypatch.setattr("armtrain.atomic._existing", lambda _: foreign)
    write_bytes(target, b"new")
    assert mode_of(target) == 0o600


def test_names_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    for name in ("x" * 255, "\u20ac" * 85):
        write_bytes(tmp_path / name, b"new")
        assert (tmp_path / name).read_bytes() == b"new"


def test_no_rights_is_no_lack_of_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(
        StorageError, match=r"Permission denied.*give this user the rights"
    ) as caught:
        write_bytes(tmp_path / "f", b"new")
    assert "free some space" not in str(caught.value)


@pytest.mark.parametrize("name", ["/", "", "no/f", "sub", "sub/", "."])
def test_a_probe_refuses_what_a_save_would(name: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    path = str(tmp_path / name) + ("/" if name.endswith("/") else "") if name else ""
    for refuse in (check_target, lambda p: write_bytes(p, b"x")):
        with pytest.raises(StorageError, match=r"choose|create"):
            refuse(path)
    assert os.listdir(tmp_path) == ["sub"]


def test_a_probe_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    check_target(tmp_path / "f")
    check_target(tmp_path / "new")
    assert os.listdir(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"old"


def test_a_path_with_nul_is_refused(tmp_path: Path) -> None:
    for refuse in (check_target, lambda p: write_bytes(p, b"x")):
        with pytest.raises(ValueError, match="NUL"):
            refuse(str(tmp_path / "a\0b"))
    assert os.listdir(tmp_path) == []


def test_what_a_killed_writer_left_is_removed_and_a_living_one_is_not(tmp_path: Path) -> None:
    orphans = (".f.4711-0123abcd.tmp", ".f.1-00000000.tmp")
    others = (".f.4711-0123abcd.tmp.keep", ".fg.4711-0123abcd.tmp", ".f.tmp", ".f.x-0123abcd.tmp")
    for name in (*orphans, *others):
        (tmp_path / name).write_bytes(b"")
    with atomic_writer(tmp_path / "f") as first:
        first.write(b"first")
        assert not any((tmp_path / name).exists() for name in orphans)
        write_bytes(tmp_path / "f", b"second")
    assert (tmp_path / "f").read_bytes() == b"first"
    assert sorted(os.listdir(tmp_path)) == sorted(("f", *others))


def test_a_killed_writer_leaves_what_the_next_one_removes(tmp_path: Path) -> None:
    script = (
        "import os, sys; from armtrain.atomic import atomic_writer\n"
        "with atomic_writer(sys.argv[1]) as file: os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "f"], check=False)
    assert len(os.listdir(tmp_path)) == 1
    write_bytes(tmp_path / "f", b"new")
    assert os.listdir(tmp_path) == ["f"]
