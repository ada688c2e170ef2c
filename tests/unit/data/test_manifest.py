"""Manifests: trusted while the files are the same, refused with the file's name otherwise."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from armtrain.cli.main import main
from armtrain.data.findings import Opening
from armtrain.data.manifest import read_manifest
from armtrain.data.source import Expected
from armtrain.data.spec import open_table, parse_spec
from armtrain.errors import DataError, StorageError


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the manifest of a table with a bad line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "t.csv").write_text("a,l\n1,x\nfoo,y\n3,y\n")
    assert main(["check-data", "csv:in/t.csv?label=l", "-o", "in/m.json"]) == 1
    return tmp_path / "in" / "m.json"


def test_bad_samples_are_left_out_and_counted(made: Path) -> None:
    with open_table(parse_spec(f"manifest:{made}")) as source:
        x = np.empty((2, 1), np.float32)
        source.x.read(np.arange(2, dtype=np.uint64), x)
        assert x.tolist() == [[1], [3]]
        assert any("1 bad sample(s) are left out" in note for note in source.notes)
        assert source.about is not None
        assert source.about.classes == ("x", "y")
        source.check(Expected((1,), 2), targets=True)


def test_folder_and_manifest_move_together(made: Path, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "in", tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "in")
    with open_table(parse_spec(f"manifest:{tmp_path / 'elsewhere' / 'm.json'}")) as source:
        assert source.count == 2


def test_changed_files_are_refused(made: Path) -> None:
    table = made.with_name("t.csv")
    os.utime(table, (1, 1))
    with open_table(parse_spec(f"manifest:{made}")) as source:
        assert source.count == 2
    table.write_text("a,l\n1,x\nfoo,y\n4,y\n")
    with pytest.raises(DataError, match=r"t\.csv changed since .*check-data again"):
        open_table(parse_spec(f"manifest:{made}"))
    table.unlink()
    with pytest.raises(StorageError, match=r"a file of .*m\.json, .*t\.csv"):
        open_table(parse_spec(f"manifest:{made}"))


def test_labels_are_compared_with_the_plan_unread(made: Path) -> None:
    with (
        open_table(parse_spec(f"manifest:{made}")) as source,
        pytest.raises(DataError, match=r"must lie in 0\.\.0, these lie in 0\.\.1"),
    ):
        source.check(Expected((1,), 1), targets=True)


@pytest.mark.parametrize(
    "edit",
    [
        {"armtrain_manifest": 2},
        {"kind": "random"},
        {"kind": 3},
        {"files": [["t.csv", 1, 2]]},
        {"files": 3},
        {"samples": "2"},
        {"samples": True},
        {"about": {"armtrain.classes": "[1]", "armtrain.preparation": "{}"}},
        {"about": {"armtrain.classes": "[]"}},
        {"about": 5},
        {"about": "x"},
        {"paths": None},
        {"labels": [0.5]},
        {"options": "speed=1"},
        {"facts": 7},
    ],
)
def test_damaged_manifests_are_refused(made: Path, edit: dict[str, object]) -> None:
    made.write_text(json.dumps(json.loads(made.read_text()) | edit))
    with pytest.raises(DataError):
        open_table(parse_spec(f"manifest:{made}"))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"null", b"[" * 100_000])
def test_other_files_are_no_manifests(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match="is no manifest"):
        read_manifest(str(path))


def test_another_number_of_samples_is_refused(made: Path) -> None:
    made.write_text(json.dumps(json.loads(made.read_text()) | {"samples": 5}))
    with pytest.raises(DataError, match="says 5 samples, its data have 2"):
        open_table(parse_spec(f"manifest:{made}"))


def test_images_of_a_manifest_are_not_decoded_before_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        image.fromarray(np.full((2, 2), 9, np.uint8)).save(tmp_path / name / "1.png")
    (tmp_path / "a" / "2.png").write_bytes(b"")
    manifest = str(tmp_path / "m.json")
    assert main(["check-data", f"folder:{tmp_path}", "-o", manifest]) == 1
    decoded: list[str] = []
    from armtrain.data.image_files import Decoder

    decode = Decoder.decode
    monkeypatch.setattr(
        Decoder, "decode", lambda self, path: decoded.append(path) or decode(self, path)
    )
    with open_table(parse_spec(f"manifest:{manifest}")) as source:
        source.check(Expected((1, 2, 2), 2), targets=True)
        assert decoded == []
        x = np.empty((2, 1, 2, 2), np.uint8)
        source.x.read(np.arange(2, dtype=np.uint64), x)
    assert (x == 9).all()
    assert len(decoded) == 2


def test_a_validation_by_manifest_keeps_the_numbers_of_the_training(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for name in ("train/a", "train/b", "train/c", "held/a", "held/c", "odd/d"):
        (tmp_path / name).mkdir(parents=True)
        image.fromarray(np.full((2, 2), 9, np.uint8)).save(tmp_path / name / "1.png")
    specs = {}
    for name in ("train", "held", "odd"):
        manifest = str(tmp_path / f"{name}.json")
        assert main(["check-data", f"folder:{tmp_path / name}", "-o", manifest]) == 0
        specs[name] = parse_spec(f"manifest:{manifest}")
    with open_table(specs["train"]) as train:
        like = train.about
    with open_table(specs["held"], Opening(like=like)) as held:
        y = np.empty(2, np.int32)
        assert held.y is not None
        held.y.read(np.arange(2, dtype=np.uint64), y)
        assert y.tolist() == [0, 2]
        assert held.about == like
        held.check(Expected((1, 2, 2), 3), targets=True)
        with pytest.raises(DataError, match="must lie in"):
            held.check(Expected((1, 2, 2), 2), targets=True)
    with pytest.raises(DataError, match=r"class 'd', which is none of a, b, c"):
        open_table(specs["odd"], Opening(like=like))
    with open_table(specs["odd"], Opening(targets=False, like=like)) as odd:
        assert odd.y is None


def test_a_link_to_a_manifest_finds_the_files(made: Path, tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(made)
    with open_table(parse_spec(f"manifest:{tmp_path / 'link.json'}")) as source:
        assert source.count == 2
