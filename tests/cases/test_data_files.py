"""Files as people have them: each case has one right answer, which is checked to the digit.

Cases DATA-01 to 06, 09 to 11, 13 and 15: folders, images, tables, compressed IDX files, sounds,
ranges.
"""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from armtrain.data.about import About
from armtrain.data.findings import Findings, Opening
from armtrain.data.source import Expected, TableSource
from armtrain.data.spec import open_table, parse_spec
from armtrain.errors import DataError


def arrays(source: TableSource) -> tuple[np.ndarray, np.ndarray]:
    """Return all samples of a source with targets."""
    rows = np.arange(source.count, dtype=np.uint64)
    assert source.y is not None
    x = np.empty((source.count, *source.x.row_shape), source.x.dtype)
    y = np.empty((source.count, *source.y.row_shape), source.y.dtype)
    source.x.read(rows, x)
    source.y.read(rows, y)
    return x, y


def images(root: Path, **pixels: object) -> None:
    """Store one image in each of some folders."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for name, values in pixels.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        image.fromarray(np.asarray(values)).save(root / name / "1.png")


GREY = np.zeros((2, 2), np.uint8)


def test_hidden_folders_are_no_classes(tmp_path: Path) -> None:
    images(tmp_path, **dict.fromkeys((".ipynb_checkpoints", "__MACOSX", "a", "b", "c"), GREY))
    opening = Opening()
    with open_table(parse_spec(f"folder:{tmp_path}"), opening) as source:
        assert source.about is not None
        assert source.about.classes == ("a", "b", "c")
        assert arrays(source)[1].tolist() == [0, 1, 2]
    assert opening.findings.skipped == [".ipynb_checkpoints (hidden)", "__MACOSX (hidden)"]


@pytest.mark.parametrize("empty", [False, True])
def test_a_class_without_validation_files_shifts_no_other(tmp_path: Path, empty: bool) -> None:
    images(tmp_path / "train", a=GREY, b=GREY, c=GREY)
    images(tmp_path / "validation", a=GREY, c=GREY)
    if empty:
        (tmp_path / "validation" / "b").mkdir()
    with open_table(parse_spec(f"folder:{tmp_path / 'train'}")) as train:
        opening = Opening(like=train.about)
    with open_table(parse_spec(f"folder:{tmp_path / 'validation'}"), opening) as held_out:
        assert arrays(held_out)[1].tolist() == [0, 2]
        assert any("class b (number 1) has no files" in note for note in held_out.notes)


def test_three_bad_images_of_five_are_named_before_training(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    images(tmp_path, a=GREY, b=GREY)
    noise = np.random.default_rng(0).integers(0, 255, (40, 40), np.uint8)
    image.fromarray(noise).save(tmp_path / "a" / "cut.jpg")
    whole = (tmp_path / "a" / "cut.jpg").read_bytes()
    (tmp_path / "a" / "cut.jpg").write_bytes(whole[: len(whole) * 6 // 10])
    (tmp_path / "a" / "empty.png").write_bytes(b"")
    (tmp_path / "b" / "page.jpg").write_text("<!DOCTYPE html><title>404</title>")
    with pytest.raises(DataError) as refused:
        open_table(parse_spec(f"folder:{tmp_path}?size=2x2"))
    message = str(refused.value)
    assert "3 bad place(s)" in message
    for name in (
        "cut.jpg: it cannot be decoded",
        "empty.png: the file is empty",
        "page.jpg: it is",
    ):
        assert name in message
    with open_table(parse_spec(f"folder:{tmp_path}?size=2x2&bad=skip")) as source:
        assert source.count == 2
        assert any("3 bad sample(s) left out" in note for note in source.notes)


def test_grey_of_16_bits_keeps_its_levels(tmp_path: Path) -> None:
    levels = (257 * np.arange(256)).astype(np.uint16).reshape(16, 16)
    images(tmp_path, a=levels)
    with open_table(parse_spec(f"folder:{tmp_path}")) as source:
        x, _ = arrays(source)
    want = np.arange(256, dtype=np.float32) / np.float32(255)
    assert x.reshape(-1).tobytes() == want.tobytes()


@pytest.mark.parametrize("targets", [True, False])
def test_the_orientation_of_the_camera_is_applied(tmp_path: Path, targets: bool) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    (tmp_path / "a").mkdir()
    exif = image.Exif()
    exif[0x0112] = 6
    stored = image.fromarray(np.array([[1, 2, 3], [4, 5, 6]], np.uint8))
    stored.save(tmp_path / "a" / "1.png", exif=exif)
    with open_table(parse_spec(f"folder:{tmp_path}"), Opening(targets=targets)) as source:
        x = np.empty((1, *source.x.row_shape), np.uint8)
        source.x.read(np.zeros(1, np.uint64), x)
    assert x[0, 0].tolist() == [[4, 1], [5, 2], [6, 3]]


def test_every_kind_of_image_arrives_in_three_channels(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    (tmp_path / "a").mkdir()
    for mode, value in (
        ("L", 51),
        ("RGB", (255, 0, 0)),
        ("RGBA", (0, 0, 0, 0)),
        ("P", 1),
        ("1", 1),
    ):
        made = image.new(mode, (2, 2), value)
        if mode == "P":
            made.putpalette([0, 0, 0, 0, 255, 0])
        made.save(tmp_path / "a" / f"{mode}.png")
    findings = Findings()
    opening = Opening(wanted=(3, 2, 2), findings=findings)
    with open_table(parse_spec(f"folder:{tmp_path}"), opening) as source:
        x, _ = arrays(source)
    white, green, grey, red = [255] * 3, [0, 255, 0], [51] * 3, [255, 0, 0]
    assert x[:, :, 0, 0].tolist() == [white, grey, green, red, white]  # in order of names
    assert findings.conversions == {
        "1 to grey": 1,
        "P to RGB": 1,
        "RGBA on white": 1,
        "grey to three channels": 2,
    }


def test_tables_of_european_spreadsheets(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_bytes("\ufeffage;height;label\r\n34;1,75;A\r\n28;1,60;B\r\n".encode())
    with open_table(parse_spec(f"csv:{table}?label=label")) as source:
        x, y = arrays(source)
        assert source.about is not None
        assert source.about.preparation["columns"] == ["age", "height"]
        assert source.about.classes == ("A", "B")
    np.testing.assert_array_equal(x, np.array([[34, 1.75], [28, 1.60]], np.float32))
    assert y.tolist() == [0, 1]


def test_missing_cells_are_named_and_targets_never_filled(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x,y\n1,2\n,3\nNA,4\n5,nan\n")
    with pytest.raises(DataError) as refused:
        open_table(parse_spec(f"csv:{table}?target=y"))
    for place in ("line 3: column 'x'", "line 4: column 'x'", "line 5: column 'y'"):
        assert place in str(refused.value)
    with pytest.raises(DataError, match=r"has 1 bad place\(s\): line 5: column 'y' is missing"):
        open_table(parse_spec(f"csv:{table}?target=y&missing=mean"))
    with open_table(parse_spec(f"csv:{table}?target=y&missing=mean&bad=skip")) as source:
        x, y = arrays(source)
    assert x.tolist() == [[1], [3], [3]]
    assert y.tolist() == [[2], [3], [4]]


def test_an_idx_file_that_is_gzip_is_unpacked(tmp_path: Path) -> None:
    header = bytes((0, 0, 8, 1)) + (3).to_bytes(4, "big")
    packed = bytearray(gzip.compress(header + bytes((7, 8, 9))))
    packed[:4] = bytes.fromhex("1F8B0808")
    packed[10:10] = b"name\0"
    path = tmp_path / "train-images-idx1-ubyte"
    path.write_bytes(packed)
    with open_table(parse_spec(f"idx:{path},{path}")) as source:
        assert arrays(source)[0].tolist() == [7, 8, 9]
        assert "is compressed" in source.notes[0]


@pytest.mark.parametrize("tag", [1, 65534])
def test_sounds_of_24_bits(tmp_path: Path, tag: int) -> None:
    samples = bytes.fromhex("FFFF7F 000080 FFFFFF")
    extra = b"" if tag == 1 else struct.pack("<HHIH14x", 22, 24, 4, 1)
    form = struct.pack("<HHIIHH", tag, 1, 16_000, 48_000, 3, 24) + extra
    body = b"WAVE" + b"fmt " + struct.pack("<I", len(form)) + form
    body += b"data" + struct.pack("<I", len(samples)) + samples + b"\0"
    (tmp_path / "word").mkdir()
    (tmp_path / "word" / "1.wav").write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    with open_table(parse_spec(f"wav:{tmp_path}")) as source:
        x, _ = arrays(source)
    want = np.array([8388607 / 8388608, -1, -1 / 8388608], np.float32)
    assert x.reshape(-1).tobytes() == want.tobytes()
    np.testing.assert_allclose(want, [0.99999988, -1.0, -1.19e-7], rtol=2e-3)


def test_the_stored_rule_of_pixels_is_used_again(tmp_path: Path) -> None:
    images(tmp_path / "train", a=np.array([[0, 128, 255]], np.uint8))
    images(tmp_path, new=np.array([[255, 128, 0]], np.uint8))
    with open_table(parse_spec(f"folder:{tmp_path / 'train'}?range=signed")) as train:
        x, _ = arrays(train)
        assert train.about is not None
        kept = About.from_metadata("weights", train.about.to_metadata())
    np.testing.assert_allclose(x.reshape(-1), [-1, 0.003922, 1], atol=1e-6)
    opening = Opening(targets=False, like=kept)
    with open_table(parse_spec(f"folder:{tmp_path / 'new'}"), opening) as source:
        again = np.empty((1, 1, 1, 3), np.float32)
        source.x.read(np.zeros(1, np.uint64), again)
        source.check(Expected((1, 1, 3), 1), targets=False)
    np.testing.assert_allclose(again.reshape(-1), [1, 0.003922, -1], atol=1e-6)
