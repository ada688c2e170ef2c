"""Whole files or nothing: order of system calls, failures, kept content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from armtrain.atomic import atomic_writer, write_bytes
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
