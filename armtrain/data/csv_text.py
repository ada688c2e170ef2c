"""Text tables: encoding, separator, header, lines of bounded length, numbers.

Quotes are as in RFC 4180: "a ""b"", c" is one cell, which may hold line breaks. A table may be
compressed with gzip, which is recognised by content.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, cast

from armtrain.closing import Closing
from armtrain.errors import DataError, StorageError
from armtrain.files import explain, open_regular

__all__ = ["Numbers", "Table", "is_missing"]

_GZIP = b"\x1f\x8b"
_MAX_LINE = 1 << 24
# The first of these that the first line holds outside of quotes; a comma may be a decimal mark.
_SEPARATORS = "\t;|,"
_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))


def is_missing(cell: str) -> bool:
    """Tell whether a cell says that its value is unknown."""
    return cell.strip().lower() in _MISSING


@dataclass
class Numbers:
    """Reads cells as numbers.

    Attributes
    ----------
    decimal : str
        The mark, '.' or ','; '' until the first number with a comma or point decides, which is
        possible where the comma separates no cells.
    """

    decimal: str

    def row(self, cells: list[str]) -> list[float] | None:
        """Return the numbers of a row, None unless all are finite and plain."""
        if self.decimal != ".":
            return None
        try:
            values = list(map(float, cells))
        except ValueError:
            return None
        return values if all(map(math.isfinite, values)) and "_" not in "".join(cells) else None

    def one(self, cell: str) -> float:
        """Return one number; raises ValueError with the reason when it is none."""
        text = cell.strip()
        mark = next((m for m in ",." if m in text), "")
        if mark and self.decimal and mark != self.decimal:
            raise ValueError(f"'{text:.40}' has the decimal mark '{mark}', not '{self.decimal}'")
        try:
            value = float(text.replace(",", ".") if mark == "," else text)
        except ValueError:
            value = math.nan
        if "_" in text or not math.isfinite(value):
            raise ValueError(f"'{text:.40}' is no finite number")
        self.decimal = self.decimal or mark
        return value


class Table(Closing):
    """A table in a text file; `rows` reads it once.

    Attributes
    ----------
    name : str
    columns : tuple of str
        Names of the header; '1', '2', ... without one.
    separator : str
    has_header : bool
    """

    def __init__(
        self, path: str, *, separator: str | None, header: str | None, encoding: str
    ) -> None:
        """Open a table and read its first row.

        Parameters
        ----------
        separator : str or None
            None: the first of tab, semicolon, bar and comma that the first line holds.
        header : {'yes', 'no', None}
            None: there is one unless every cell of the first row is a number or missing.

        Raises
        ------
        DataError
            The table is empty, or no text of this encoding.
        StorageError
            The file cannot be read.
        """
        self.name = path
        self._encoding = "utf-8-sig" if encoding == "utf-8" else encoding
        self._file: BinaryIO = open_regular(path, buffered=True)
        try:
            self._begin(separator, header)
        except BaseException:
            self.close()
            raise

    def _begin(self, separator: str | None, header: str | None) -> None:
        """Learn separator and header from the first line."""
        if separator is None:
            line = next((text for text in self._lines() if text.strip()), "")
            bare = "".join(line.split('"')[::2])
            separator = next((mark for mark in _SEPARATORS if mark in bare), ",")
        self.separator = separator
        first = next(self._records(), None)
        if first is None:
            raise DataError(f"{self.name} holds no rows; a table has a header and rows")
        cells = [cell.strip() for cell in first[1]]
        self.has_header = header == "yes" or (header is None and not self._numeric(cells))
        self.columns = tuple(cells if self.has_header else map(str, range(1, len(cells) + 1)))
        if len(set(self.columns) - {""}) != len([name for name in self.columns if name]):
            twice = sorted({name for name in cells if name and cells.count(name) > 1})
            raise DataError(
                f"{self.name}: the header has {', '.join(twice)} more than once; rename the "
                "columns, or say header=no if it is a row of data"
            )

    def _numeric(self, cells: list[str]) -> bool:
        """Tell whether a row looks like data: every cell is a number or missing."""
        numbers = Numbers("." if self.separator == "," else "")
        for cell in cells:
            try:
                if not is_missing(cell):
                    numbers.one(cell)
            except ValueError:
                return False
        return any(not is_missing(cell) for cell in cells)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield number of the first line, counted from 1, and cells of every row of data."""
        records = self._records()
        if self.has_header:
            next(records, None)
        yield from records

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line number and cells of every record, blank lines left out."""
        reader = csv.reader(self._lines(), delimiter=self.separator, strict=True)
        line = 1
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise DataError(
                    f"{self.name}: the record of line {line} cannot be read ({error}); check its "
                    "quotes, which enclose whole cells and are doubled inside"
                ) from error
            if cells and (len(cells) > 1 or cells[0].strip()):
                yield line, cells
            line = reader.line_num + 1

    def _lines(self) -> Iterator[str]:
        """Yield lines from the beginning, none longer than a limit."""
        self._file.seek(0)
        packed = self._file.read(2) == _GZIP
        self._file.seek(0)
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=self._file) if packed else self._file)
        text = io.TextIOWrapper(stream, self._encoding, newline="")
        number = 0
        try:
            while line := text.readline(_MAX_LINE):
                number += 1
                if len(line) == _MAX_LINE:
                    raise DataError(
                        f"{self.name}: line {number} is longer than {_MAX_LINE} characters; is it "
                        "a table with one sample a line?"
                    )
                yield line
        except UnicodeError as error:
            raise DataError(
                f"{self.name} is no {self._encoding.removesuffix('-sig')} text near line "
                f"{number + 1} ({error}); save it as UTF-8, or name its encoding, "
                "as in encoding=latin-1"
            ) from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(
                f"{self.name} is a damaged compressed file ({error}); copy it again"
            ) from error
        except OSError as error:
            raise StorageError(f"cannot read {self.name}: {explain(error)}") from error
        finally:
            with suppress(ValueError):  # closed meanwhile
                text.detach()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
