"""Regular files alone are read; error numbers have their advice, the same in both languages."""

from __future__ import annotations

import errno
import os
import re
import socket
from pathlib import Path

import pytest

from armtrain.atomic import check_target
from armtrain.errors import StorageError
from armtrain.files import explain, open_regular, path_text, read_regular, takes_files


def test_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("f")
    assert read_regular(tmp_path / "link") == b"abc"
    with open_regular(str(tmp_path / "f"), buffered=True) as file:
        assert file.read(1) == b"a"


def test_whatever_else_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path, kind in (("pipe", "a pipe"), ("/dev/zero", "a device"), (".", "a directory")):
            with pytest.raises(StorageError, match=f"the plan .*it is {kind}, not a regular file"):
                read_regular(tmp_path / path, "the plan ")
        with pytest.raises(StorageError, match="cannot read"):
            read_regular(tmp_path / "socket")


def test_missing_file_says_it_once(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        read_regular(tmp_path / "none")
    assert str(caught.value).count("none") == 1
    assert str(caught.value).endswith("No such file or directory; check the path")
    assert "Errno" not in str(caught.value)


def test_a_path_with_nul_is_named() -> None:
    with pytest.raises(ValueError, match=r"'a\\x00b' holds a NUL"):
        path_text("a\0b")
    with pytest.raises(ValueError, match="NUL"):
        read_regular("a\0b")


def test_advice_follows_the_error_number() -> None:
    assert "free some space" in explain(OSError(errno.ENOSPC, "x"))
    assert "free some space" not in explain(OSError(errno.EACCES, "x"))
    assert "rights" in explain(OSError(errno.EACCES, "x"))
    assert explain(OSError(errno.ENOTEMPTY, "x")) == "x; choose another file or directory"
    assert explain(OSError("only text")).startswith("only text; ")


def test_advice_is_the_same_in_c(root: Path) -> None:
    text = (root / "kernels" / "engine" / "file_advice.c").read_text()
    rows = re.findall(r'\{(E\w+), "([^"]*)"\}', text)
    assert len(rows) >= 15
    for name, advice in rows:
        assert explain(OSError(getattr(errno, name), "x")) == f"x; {advice}"


def test_a_deleted_current_directory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    advice = "the current directory was deleted: change to one that exists"
    with pytest.raises(StorageError, match=f"cannot read f: No such file or directory; {advice}"):
        read_regular("f")
    with pytest.raises(StorageError, match=f"cannot write f: No such file or directory; {advice}"):
        check_target("f")
    with pytest.raises(FileNotFoundError):
        takes_files(".")
    assert f'"{advice}"' in (root / "kernels" / "engine" / "file_advice.c").read_text()


def test_a_probe_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    takes_files(tmp_path)
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        takes_files(tmp_path / "none")

    def refuse(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "no files without a name here")

    monkeypatch.setattr(os, "open", refuse)
    takes_files(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OSError, match="without a name"):
        takes_files(tmp_path)
