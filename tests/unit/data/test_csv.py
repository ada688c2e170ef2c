"""Tables: what is read, what is refused with its line, and how validations follow a training."""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtrain.data.about import About
from armtrain.data.csv_text import is_missing
from armtrain.data.findings import Findings, Opening
from armtrain.data.source import Expected, TableSource
from armtrain.data.spec import open_table, parse_spec
from armtrain.errors import ArmtrainError, DataError, StorageError


def write(path: Path, text: str | bytes) -> Path:
    """Write a table."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def arrays(source: TableSource) -> tuple[np.ndarray, np.ndarray | None]:
    """Return all rows of both columns."""
    rows = np.arange(source.count, dtype=np.uint64)
    result = []
    for column in (source.x, source.y):
        if column is None:
            result.append(None)
            continue
        out = np.empty((source.count, *column.row_shape), column.dtype)
        column.read(rows, out)
        result.append(out)
    return result[0], result[1]


def read(path: Path, options: str, opening: Opening | None = None):
    """Return inputs, targets and what is kept with the weights."""
    with open_table(parse_spec(f"csv:{path}?{options}"), opening) as source:
        return *arrays(source), source.about


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "t.csv"


def test_names_of_classes_are_numbered_in_order(table: Path) -> None:
    write(table, "a,kind,b\n1,pear,2\n3,apple,4\n5,pear,6\n")
    x, y, about = read(table, "label=kind")
    assert x.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert y is not None
    assert y.tolist() == [1, 0, 1]
    assert about == About("csv", ("apple", "pear"), {"columns": ["a", "b"], "label": "kind"})


def test_whole_numbers_are_the_numbers_of_their_classes(table: Path) -> None:
    write(table, "a,l\n1,7\n2,0\n3,3.0\n")
    _, y, about = read(table, "label=l")
    assert y is not None
    assert y.tolist() == [7, 0, 3]
    assert about is not None
    assert about.classes == ()
    _, y, about = read(table, "label=l&labels=names")
    assert (y.tolist(), about.classes) == ([2, 0, 1], ("0", "3.0", "7"))


def test_labels_out_of_range_offer_names(table: Path) -> None:
    write(table, "a,l\n1,1\n2,2\n")
    with (
        open_table(parse_spec(f"csv:{table}?label=l")) as source,
        pytest.raises(DataError, match=r"look 1-based: subtract 1.*labels=names"),
    ):
        source.check(Expected((1,), 2), targets=True)


def test_targets_are_float32(table: Path) -> None:
    write(table, "a,b,c\n1,2,3\n4,5,6\n")
    x, y, about = read(table, "target=c,a")
    assert x.tolist() == [[2], [5]]
    assert y is not None
    assert (y.tolist(), y.dtype) == ([[3, 1], [6, 4]], np.float32)
    assert about is not None
    assert about.preparation["columns"] == ["b"]


def test_quotes_hold_separators_and_line_breaks(table: Path) -> None:
    write(table, 'a,"the, label"\r\n1,"x ""1"",\r\ny"\r\nfoo,z\r\n')
    with pytest.raises(DataError, match=r"line 4: column 'a': 'foo' is no finite number"):
        read(table, "label=the%2C label")
    _, _, about = read(table, "label=the%2C label&bad=skip")
    assert about is not None
    assert about.classes == ('x "1",\r\ny',)


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_separators_are_found(table: Path, mark: str) -> None:
    write(table, mark.join(("a", "b", "l")) + "\n" + mark.join("123") + "\n")
    assert read(table, "label=l")[0].tolist() == [[1, 2]]


def test_a_table_of_numbers_has_no_header(table: Path) -> None:
    write(table, "1,2,0\n3,4,1\n")
    x, _, _ = read(table, "label=3")
    assert x.tolist() == [[1, 2], [3, 4]]
    x, _, _ = read(table, "label=0&header=yes&columns=1")
    assert x.tolist() == [[3]]


def test_gzip_is_recognised_by_content(table: Path) -> None:
    write(table, gzip.compress(b"a,l\n1,0\n"))
    assert read(table, "label=l")[0].tolist() == [[1]]
    write(table, gzip.compress(b"a,l\n1,0\n" * 1000)[:-9])
    with pytest.raises(DataError, match="damaged compressed file"):
        read(table, "label=l")


def test_decimal_commas_may_not_mix_with_points(table: Path) -> None:
    write(table, "a;l\n1,5;0\n2.5;1\n")
    with pytest.raises(DataError, match=r"line 3: column 'a': '2.5' has the decimal mark '.'"):
        read(table, "label=l")
    write(table, "a;l\n1.234,5;0\n")
    with pytest.raises(DataError, match=r"line 2.*1\.234,5"):
        read(table, "label=l")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no rows"),
        ("a,l\n", "holds no sample"),
        ("a,a,l\n1,2,3\n", "more than once"),
        (",a,l\n0,1,2\n", "column 1 has no name.*drop=#1"),
        ("a,l\n1,2,3\n", "line 2: 3 cells, the first row has 2"),
        ("a,l\n1_0,2\n", "'1_0' is no finite number"),
        ("a,l\ninf,2\n", "'inf' is no finite number"),
        ("a,l\n1e39,2\n", "1e39 is beyond float32"),
        ("a,l\n1,\n", "line 2: the label is missing"),
        ("a,l\n1,-\n\n\n,2\n", "line 5: column 'a' is missing"),
        ('a,l\n1,"x\n', r"line 2 cannot be read.*quotes"),
        (b"a,l\n1,\xff\n", r"is no utf-8.*encoding=latin-1"),
    ],
)
def test_refusals_name_the_line(table: Path, text: str | bytes, message: str) -> None:
    write(table, text)
    with pytest.raises(DataError, match=message):
        read(table, "label=l")


def test_column_names_are_checked(table: Path) -> None:
    write(table, "a,b\n1,2\n")
    for options, message in (
        ("label=c", "no column 'c'; it has a, b"),
        ("", "which column is to be learned"),
        ("label=a&target=b", "not both"),
        ("label=a&drop=b", "no column left"),
        ("label=a&drop=z", "no column 'z'"),
    ):
        with pytest.raises(DataError, match=message):
            read(table, options)
    with pytest.raises(StorageError, match="cannot read"):
        read(table.with_name("none.csv"), "label=a")


def test_an_endless_line_is_refused(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armtrain.data.csv_text._MAX_LINE", 100)
    write(table, "a,l\n" + "1," * 60 + "\n")
    with pytest.raises(DataError, match="line 2 is longer than 100"):
        read(table, "label=l")


def test_standard_scaling_is_kept_for_other_tables(table: Path) -> None:
    write(table, "a,b,l\n1,1000001,x\n2,1000003,y\n3,1000002,x\n6,1000002,y\n")
    x, _, about = read(table, "label=l&normalize=standard")
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(x.std(axis=0), 1, rtol=1e-6)
    write(table, "l,b,extra,a\ny,1000002,9,3\n")
    like = Opening(like=About.from_metadata("f", about.to_metadata()))
    x, y, again = read(table, "", like)
    assert y is not None
    assert y.tolist() == [1]
    np.testing.assert_allclose(x, [[0, 0]], atol=1e-6)
    assert again.to_metadata() == about.to_metadata()


def test_a_constant_column_becomes_zero(table: Path) -> None:
    write(table, "a,b,l\n5,1,0\n5,2,1\n")
    assert read(table, "label=l&normalize=standard")[0][:, 0].tolist() == [0, 0]


def test_a_class_that_the_weights_do_not_know_is_refused(table: Path) -> None:
    write(table, "a,l\n1,x\n2,q\n")
    like = Opening(like=About("csv", ("x", "y"), {"columns": ["a"], "label": "l"}))
    with pytest.raises(DataError, match=r"line 3: the label 'q' is none of the 2 classes"):
        read(table, "", like)


def test_predictions_need_no_label(table: Path) -> None:
    like = About("csv", ("x", "y"), {"columns": ["b", "a"], "label": "l"})
    write(table, "a,b\n1,2\n")
    x, y, _ = read(table, "", Opening(targets=False, like=like))
    assert (x.tolist(), y) == ([[2, 1]], None)
    write(table, "a\n1\n")
    with pytest.raises(DataError, match="no column 'b'"):
        read(table, "", Opening(targets=False, like=like))


@pytest.mark.parametrize(
    "preparation", [{}, {"columns": 3}, {"columns": ["a"], "mean": [1, 2]}, {"columns": [1]}]
)
def test_damaged_preparations_are_refused(table: Path, preparation: dict[str, object]) -> None:
    write(table, "a,l\n1,x\n")
    with pytest.raises(DataError, match="preparation"):
        read(table, "label=l", Opening(like=About("csv", ("x",), preparation)))


def test_many_rows_go_through_a_file(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armtrain.data.spill._BLOCK_BYTES", 100)
    rows = 500
    write(table, "a,b,l\n" + "".join(f"{i},{i / 8},{i % 3}\n" for i in range(rows)))
    with open_table(parse_spec(f"csv:{table}?label=l")) as source:
        wanted = np.array([499, 0, 1, 2, 250], np.uint64)
        x = np.empty((5, 2), np.float32)
        y = np.empty(5, np.int64)
        source.x.read(wanted, x)
        assert source.y is not None
        source.y.read(wanted, y)
    assert x.tolist() == [[i, i / 8] for i in wanted.tolist()]
    assert y.tolist() == [i % 3 for i in wanted.tolist()]


def test_lenient_opening_lists_everything(table: Path) -> None:
    write(table, "a,l\n1,0\nx,1\n2,1\n,0\n")
    findings = Findings(lenient=True)
    x, _, _ = read(table, "label=l", Opening(findings=findings))
    assert x.tolist() == [[1], [2]]
    assert [p.place for p in findings.problems] == ["line 3", "line 5"]


def test_too_many_classes_are_refused(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armtrain.data.csv_columns._MAX_CLASSES", 2)
    write(table, "a,l\n1,x\n2,y\n3,z\n")
    with pytest.raises(DataError, match=r"more than 2 different labels.*target="):
        read(table, "label=l")


@pytest.mark.parametrize("option", ["missing=mean", "normalize=standard", "divide=3", "columns=b"])
def test_another_preparation_than_the_trainings_is_refused(table: Path, option: str) -> None:
    write(table, "a,b,l\n1,2,x\n")
    like = About("csv", ("x",), {"columns": ["a", "b"], "label": "l", "divide": 2.0})
    with pytest.raises(DataError, match="is asked for, but the weights were trained without"):
        read(table, option, Opening(like=like))
    assert read(table, "divide=2&columns=a,b", Opening(like=like))[0].tolist() == [[0.5, 1]]


def test_names_are_refused_where_the_training_had_numbers(table: Path) -> None:
    like = About("csv", (), {"columns": ["a"], "label": "l"})
    write(table, "a,l\n1,2\n")
    assert read(table, "", Opening(like=like))[1].tolist() == [2]
    write(table, "a,l\n1,2\n1,two\n")
    with pytest.raises(DataError, match="line 3: the label 'two' is no whole number"):
        read(table, "", Opening(like=like))


def test_missing_inputs_are_filled_as_in_the_training(table: Path) -> None:
    write(table, "a,l\n1,0\n5,1\n,1\n")
    _, _, about = read(table, "label=l&missing=mean")
    write(table, "a,l\n,0\n100,1\n")
    assert read(table, "", Opening(like=about))[0].tolist() == [[3], [100]]


def test_another_kind_of_data_is_refused(table: Path) -> None:
    write(table, "a,l\n1,0\n")
    with pytest.raises(DataError, match=r"these are csv: data, but .* from wav: data"):
        read(table, "label=l", Opening(like=About("wav", ("x",), {})))


def test_the_label_is_no_input(table: Path) -> None:
    write(table, "a,b,l\n1,2,0\n")
    for options in ("label=l&columns=a,l", "target=l,b&columns=a,b"):
        with pytest.raises(DataError, match="which would tell the answer"):
            read(table, options)


@pytest.mark.parametrize("label", ["1.5", "-2.25", ".5", "1e3", "2,5"])
def test_fractions_are_no_classes(table: Path, label: str) -> None:
    write(table, f"a;l\n1;0\n2;{label}\n")
    with pytest.raises(DataError, match=r"no names or numbers of classes: .*target="):
        read(table, "label=l")
    assert read(table, "label=l&labels=names")[1].tolist() == [0, 1]


NAMES = st.text(min_size=1, max_size=5).filter(
    lambda text: not is_missing(text) and text.strip() and not text.strip()[0].isdigit()
)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(
    rows=st.lists(st.tuples(FLOATS, FLOATS, NAMES), min_size=1, max_size=8),
    mark=st.sampled_from(",;\t|"),
)
def test_what_is_written_is_read(rows: list[tuple[float, float, str]], mark: str) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=mark, quoting=csv.QUOTE_ALL).writerows([("a", "b", "l"), *rows])
    with tempfile.TemporaryDirectory() as folder:
        x, y, about = read(write(Path(folder) / "t.csv", text.getvalue()), "label=l&labels=names")
    assert x.tolist() == [list(row[:2]) for row in rows]
    assert [about.classes[i] for i in y] == [row[2].strip() for row in rows]


@given(
    st.one_of(st.binary(max_size=200), st.text('0123456789.,;\t|"\n\r-eEna ', max_size=200)),
    st.sampled_from(
        ("label=1", "label=1&header=no&bad=skip", "target=2", "label=1&encoding=utf-16")
    ),
)
def test_no_bytes_break_the_reader(content: bytes | str, options: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "t.csv", content)
        with suppress(ArmtrainError):
            x, _, _ = read(path, options)
            assert np.isfinite(x).all()
