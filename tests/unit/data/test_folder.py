"""Folders of images: classes, decoding rules, refusals by name before the first step."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from armtrain.data.about import About
from armtrain.data.findings import Findings, Opening
from armtrain.data.source import Expected, TableSource
from armtrain.data.spec import open_table, parse_spec
from armtrain.errors import DataError, StorageError

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


def image(path: Path, pixels: object, mode: str | None = None, **options: object) -> Path:
    """Store an image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = Image.fromarray(np.asarray(pixels))
    (made if mode is None else made.convert(mode)).save(path, **options)
    return path


def grey(value: int, shape: tuple[int, int] = (2, 3)) -> np.ndarray:
    """Return a grey image of one value."""
    return np.full(shape, value, np.uint8)


def samples(source: TableSource) -> np.ndarray:
    """Return all inputs as stored."""
    out = np.empty((source.count, *source.x.row_shape), source.x.dtype)
    source.x.read(np.arange(source.count, dtype=np.uint64), out)
    return out


def open_folder(root: Path, options: str = "", opening: Opening | None = None) -> TableSource:
    """Open a folder."""
    return open_table(parse_spec(f"folder:{root}?{options}"), opening)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for value, name in ((10, "b"), (20, "a"), (30, "a/deeper"), (40, "c")):
        image(tmp_path / "d" / name / "1.png", grey(value))
    return tmp_path / "d"


def test_order_of_classes_and_files_is_that_of_names(root: Path) -> None:
    with open_folder(root) as source:
        x, y = samples(source), np.empty(4, np.int32)
        assert source.y is not None
        source.y.read(np.arange(4, dtype=np.uint64), y)
    assert x.shape == (4, 1, 2, 3)
    assert x.dtype == np.uint8
    assert x[:, 0, 0, 0].tolist() == [20, 30, 10, 40]
    assert y.tolist() == [0, 0, 1, 2]
    assert source.about is not None
    assert source.about.classes == ("a", "b", "c")


def test_the_plan_gives_size_and_channels(root: Path) -> None:
    with open_folder(root, opening=Opening(wanted=(3, 4, 5))) as source:
        assert samples(source).shape == (4, 3, 4, 5)
        source.check(Expected((3, 4, 5), 3), targets=True)
    with open_folder(root, "size=6x7&channels=3", Opening(wanted=(1, 4, 5))) as source:
        assert samples(source).shape == (4, 3, 6, 7)
    assert any("resized to 6x7: 4" in note for note in source.notes)


def test_different_sizes_are_refused_with_the_way_out(root: Path) -> None:
    image(root / "a" / "2.png", grey(1, (9, 9)))
    with pytest.raises(DataError, match=r"2\.png: 9x9 pixels .* 2x3; size=HEIGHTxWIDTH"):
        open_folder(root)
    with open_folder(root, "size=4") as source:
        assert samples(source).shape == (5, 1, 4, 4)


@pytest.mark.parametrize(("fit", "want"), [("stretch", 1), ("crop", 1), ("pad", 0)])
def test_proportions(tmp_path: Path, fit: str, want: int) -> None:
    pixels = np.full((4, 8), 255, np.uint8)
    image(tmp_path / "a" / "1.png", pixels)
    with open_folder(tmp_path, f"size=4x4&fit={fit}") as source:
        x = samples(source)[0, 0]
    assert x[2].tolist() == [255] * 4
    assert x[0].tolist() == [255 * want] * 4


def test_signed_range(tmp_path: Path) -> None:
    image(tmp_path / "a" / "1.png", np.array([[0, 128, 255]], np.uint8))
    with open_folder(tmp_path, "range=signed") as source:
        np.testing.assert_allclose(samples(source)[0, 0], [[-1, 1 / 255, 1]], rtol=1e-6)


def test_links_in_a_circle_end(root: Path) -> None:
    (root / "a" / "loop").symlink_to(root / "a")
    with open_folder(root) as source:
        assert source.count == 4


def test_validation_follows_the_training(root: Path, tmp_path: Path) -> None:
    with open_folder(root, "size=4x4") as source:
        like = About.from_metadata("w", source.about.to_metadata())
    image(tmp_path / "v" / "c" / "1.png", grey(7))
    with open_folder(tmp_path / "v", opening=Opening(like=like)) as held_out:
        y = np.empty(1, np.int32)
        held_out.y.read(np.zeros(1, np.uint64), y)
        assert y.tolist() == [2]
        assert samples(held_out).shape == (1, 1, 4, 4)
        assert any("class b (number 1) has no files" in note for note in held_out.notes)
    with pytest.raises(DataError, match="weights were trained with size"):
        open_folder(tmp_path / "v", "size=8x8", Opening(like=like))
    image(tmp_path / "v" / "new" / "1.png", grey(7))
    with pytest.raises(DataError, match="no classes of the training: new"):
        open_folder(tmp_path / "v", opening=Opening(like=like))


def test_predictions_take_a_flat_folder(tmp_path: Path) -> None:
    image(tmp_path / "1.png", grey(3))
    with open_folder(tmp_path, opening=Opening(targets=False)) as source:
        assert source.y is None
        assert source.count == 1
    with pytest.raises(DataError, match="has no subfolders"):
        open_folder(tmp_path)


def test_empty_and_missing_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(DataError, match="holds no files that end in"):
        open_folder(tmp_path)
    with pytest.raises(StorageError, match="cannot read the folder"):
        open_folder(tmp_path / "none")


def test_a_file_that_becomes_bad_later_is_named(root: Path) -> None:
    with open_folder(root) as source:
        (root / "b" / "1.png").write_bytes(b"x")
        with pytest.raises(DataError, match=r"b/1\.png became unusable"):
            samples(source)


def test_all_bad(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").write_bytes(b"")
    with pytest.raises(DataError, match="1 bad place"):
        open_folder(tmp_path)
    with pytest.raises(DataError, match="no image that can be used"):
        open_folder(tmp_path, "bad=skip")
    findings = Findings(lenient=True)
    with pytest.raises(DataError, match="no image"):
        open_folder(tmp_path, opening=Opening(findings=findings))
    assert findings.problem_count == 1


def test_huge_and_unscaled_images_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image(tmp_path / "a" / "1.png", grey(1))
    image(tmp_path / "a" / "2.tif", np.ones((2, 3), np.float32))
    image(tmp_path / "a" / "3.tif", np.full((2, 3), 70_000, np.int32))
    with pytest.raises(DataError, match=r"2\.tif: .*floating-point.*3\.tif: .*70000"):
        open_folder(tmp_path)
    monkeypatch.setattr("armtrain.data.image_files.MAX_PIXELS", 5)
    with pytest.raises(DataError, match="2x3 pixels are more than 5"):
        open_folder(tmp_path)


def test_without_pillow_the_advice_is_how_to_install_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match=r"pip install 'armtrain\[images\]'.*convert-data"):
        open_folder(root)


@pytest.mark.parametrize("key", ["size", "channels", "fit", "range"])
def test_damaged_preparations_are_refused(root: Path, key: str) -> None:
    good: dict[str, object] = {"size": [2, 3], "channels": 1, "fit": "pad", "range": "unit"}
    like = About("folder", ("a", "b", "c"), good | {key: None})
    with pytest.raises(DataError, match="preparation of images is damaged"):
        open_folder(root, opening=Opening(like=like))


def test_decoding_is_counted_as_memory(root: Path) -> None:
    image(root / "a" / "big.png", grey(1, (100, 200)))
    with open_folder(root, "size=2x3") as source:
        assert source.scratch_bytes(1) >= 100 * 200 * 4


def test_a_name_that_is_no_text_is_no_class(root: Path) -> None:
    image(root / "\udcff" / "1.png", grey(1))
    with pytest.raises(DataError, match=r"folder b'\\xff' has a name that is no UTF-8 text"):
        open_folder(root)


def test_files_without_readable_names_can_be_reported(root: Path) -> None:
    (root / "a" / "\udcff.png").write_bytes(b"")
    with pytest.raises(DataError) as refused:
        open_folder(root)
    assert "\\udcff.png: the file is empty" in str(refused.value).encode().decode()


def test_files_that_cannot_be_read_are_named_with_the_others(root: Path) -> None:
    (root / "a" / "gone.png").symlink_to(root / "nowhere.png")
    (root / "b" / "empty.png").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"2 bad place.*gone\.png: cannot read.*empty\.png: the file"
    ):
        open_folder(root)
