"""Outputs are compared with inputs and with each other, whatever way their names are written."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

import pytest

from armtrain.cli.common import UsageError
from armtrain.cli.targets import check_files
from armtrain.errors import StorageError


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory: files a and b, and other names of them."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    (tmp_path / "soft").symlink_to("a")
    (tmp_path / "hard").hardlink_to("a")
    (tmp_path / "dangling").symlink_to("new")
    (tmp_path / "sub").mkdir()
    return tmp_path


def check(verb: str, **values: object) -> None:
    """Look at a parsed command line."""
    check_files(Namespace(verb=verb, **values))


@pytest.mark.parametrize("name", ["a", "./a", "sub/../a", "soft", "hard"])
def test_every_name_of_a_file_is_recognised(name: str, work: Path) -> None:
    with pytest.raises(UsageError, match=r"--save would overwrite the file of F\.plan"):
        check("train", plan="a", save=name)
    with pytest.raises(UsageError, match=r"--save would overwrite the file of F\.plan"):
        check("train", plan=name, save=str(work / "a"))


@pytest.mark.parametrize(
    ("verb", "values", "names"),
    [
        ("train", {"data": "npz:a", "log": "a"}, ("--log", "--data")),
        ("train", {"data": "idx:b,a", "save": "a"}, ("--save", "--data")),
        ("train", {"validation": "idx:a,b", "save": "a"}, ("--save", "--validation")),
        ("train", {"weights": "a", "log": "a"}, ("--log", "--weights")),
        ("train", {"save": "new", "log": "sub/../new"}, ("--log", "--save")),
        ("train", {"save": "new", "log": "dangling"}, ("--log", "--save")),
        ("train", {"save": "no/x", "log": "no/./x"}, ("--log", "--save")),
        ("train", {"save": "new", "checkpoint": "new"}, ("--checkpoint", "--save")),
        ("inspect", {"plan": "a", "svg": "a"}, ("--svg", r"F\.plan")),
        ("inspect", {"plan": "a", "html": "a"}, ("--html", r"F\.plan")),
        ("inspect", {"plan": "a", "svg": "b", "text": "b"}, ("--text", "--svg")),
        ("plan", {"model": "a:make", "output": "a"}, ("-o", "MODEL")),
        ("plan", {"board": "a", "output": "a"}, ("-o", "--board")),
        ("predict", {"weights": "a", "output": "a"}, ("-o", "--weights")),
        ("predict", {"data": "npz:a", "output": "a"}, ("-o", "--data")),
        ("convert-data", {"data": "npz:a", "output": "a"}, ("-o", "SPEC")),
    ],
)
def test_every_pair_of_options(
    verb: str, values: dict[str, str], names: tuple[str, str], work: Path
) -> None:
    with pytest.raises(UsageError, match="{} would overwrite the file of {} ".format(*names)):
        check(verb, **values)
    assert (work / "a").read_text() == "a"


def test_what_is_fine(work: Path) -> None:
    check("train", plan="a", data="npz:b", save="new", log="sub/new", checkpoint="sub/c")
    check("train", plan="a", data="npz:a", weights="b", save="b")
    check("train", plan="a", data="digits", log="b", save=None, checkpoint=None)
    check("plan", model="zoo:lenet", output="new", board="generic", threads=None)
    check("inspect", plan="a", svg="new", html=None)
    assert sorted(os.listdir(work)) == ["a", "b", "dangling", "hard", "soft", "sub"]


@pytest.mark.parametrize("target", ["/", "", "no/f", "sub", "sub/"])
def test_what_cannot_be_written_is_refused(target: str, work: Path) -> None:
    for key in ("output", "svg", "save"):
        with pytest.raises(StorageError, match=r"choose|create"):
            check("any", **{key: target})


def test_nul_is_a_usage_error(work: Path) -> None:
    with pytest.raises(UsageError, match="NUL"):
        check("check", plan="a\0b")
