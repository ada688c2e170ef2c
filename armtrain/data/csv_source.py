"""`csv:FILE?label=COLUMN`: tables of numbers with a class name, or numbers, to be predicted.

The table is read once, checked cell by cell, and kept as float32 rows in a temporary file, from
which training reads any row at any time. What would make a sample wrong without a word is
refused with its line: missing cells, text among numbers, rows of another length.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.data.about import About
from armtrain.data.columns import Column
from armtrain.data.csv_columns import LabelNumbers, Moments, Prepared, Renumbered
from armtrain.data.csv_text import Numbers, Table, is_missing
from armtrain.data.findings import Opening
from armtrain.data.options import Option, choice, names, real, word
from armtrain.data.source import TableSource
from armtrain.data.spill import Spill
from armtrain.errors import DataError

__all__ = ["CSV_OPTIONS", "open_csv"]

CSV_OPTIONS = {
    "label": Option(word, "column of class names, or of class numbers from 0"),
    "target": Option(names, "column(s) of numbers to predict, between commas"),
    "columns": Option(names, "inputs; all other columns by default"),
    "drop": Option(names, "columns to leave out, #N for one without a name"),
    "separator": Option(choice(",", ";", "\t", "|", "tab"), "found in the first line by default"),
    "decimal": Option(choice(".", ","), "a comma is understood where it separates no cells"),
    "header": Option(choice("yes", "no"), "yes unless the first row is all numbers"),
    "encoding": Option(choice("utf-8", "utf-16", "latin-1", "cp1252"), "utf-8"),
    "labels": Option(choice("names", "numbers"), "whether whole numbers are names of classes"),
    "missing": Option(choice("refuse", "mean"), "mean fills missing inputs, never targets"),
    "normalize": Option(choice("none", "standard"), "standard: mean 0, deviation 1 a column"),
    "divide": Option(real, "divide all inputs by a number"),
    "bad": Option(choice("refuse", "skip"), "skip leaves out rows that cannot be used"),
}
"""Options of the SPEC."""

_SEPARATORS = {"tab": "\t"}
_WAY = (
    "repair the lines, or leave them out with bad=skip; missing=mean fills missing inputs, never "
    "labels or targets; drop=COLUMN leaves a column out"
)


@dataclass(frozen=True)
class _Chosen:
    """Places of the columns in a row: inputs, then the label or the targets."""

    inputs: tuple[int, ...]
    label: int | None = None
    targets: tuple[int, ...] = ()


def open_csv(path: str, options: dict[str, Any], opening: Opening) -> TableSource:
    """Read a table into a source.

    Parameters
    ----------
    path : str
    options : dict
        Parsed by `CSV_OPTIONS`.
    opening : Opening

    Raises
    ------
    DataError
        The table cannot be read, lacks a column, or has bad lines (the first are named).
    StorageError
        The file cannot be read, or the temporary directory is full.
    """
    like = opening.like_kind("csv")
    options = _with_defaults(options, like, targets=opening.targets)
    separator = options.get("separator")
    with Table(
        path,
        separator=_SEPARATORS.get(separator, separator) if separator else None,
        header=options.get("header"),
        encoding=options.get("encoding", "utf-8"),
    ) as table:
        chosen = _choose(table, options, like, targets=opening.targets)
        return _Reader(table, chosen, options, like, opening).read()


def _with_defaults(options: dict[str, Any], like: About | None, *, targets: bool) -> dict[str, Any]:
    """Take label and targets from the training when the SPEC names none."""
    result = dict(options)
    if like is not None and targets and "label" not in options and "target" not in options:
        for key in ("label", "target"):
            if like.preparation.get(key):
                result[key] = like.preparation[key]
    return result


def _choose(table: Table, options: dict[str, Any], like: About | None, *, targets: bool) -> _Chosen:
    """Return where inputs, label and targets are."""
    label, wanted = options.get("label"), tuple(options.get("target", ()))
    there = f"{table.name} has the columns {', '.join(table.columns[:20])}"
    if label is not None and wanted:
        raise DataError(f"{table.name}: give label=COLUMN or target=COLUMN,..., not both; {there}")
    if targets and label is None and not wanted:
        raise DataError(
            f"{table.name}: which column is to be learned? label=COLUMN names classes, "
            f"target=COLUMN,... numbers; {there}"
        )
    outside = set(wanted) | ({label} if label else set()) | set(options.get("drop", ()))
    columns = options.get("columns", tuple(c for c in table.columns if c not in outside))
    if like is not None:
        columns = _trained_columns(like)
    places = {name: i for i, name in enumerate(table.columns)}
    places |= {f"#{i + 1}": i for i, name in enumerate(table.columns) if not name}
    learned = [label] if label is not None else list(wanted)
    # Without targets the column may be there, as in the training's file, or not.
    learned = [name for name in learned if targets or name in places]
    missing = [
        name for name in (*columns, *learned, *options.get("drop", ())) if name not in places
    ]
    if missing:
        raise DataError(
            f"{table.name} has no column {', '.join(map(repr, missing[:8]))}; it has "
            f"{', '.join(table.columns[:20])}{_header_hint(table)}"
        )
    unnamed = [i + 1 for i, name in enumerate(table.columns) if not name and name in columns]
    columns = tuple(name for name in columns if name)
    dropped = {places[name] for name in options.get("drop", ())}
    unnamed = [number for number in unnamed if number - 1 not in dropped]
    if unnamed:
        raise DataError(
            f"{table.name}: column {unnamed[0]} has no name and is often a row number, which must "
            f"not be learned: leave it out with drop=#{unnamed[0]}, or give it a name"
        )
    inputs = tuple(places[name] for name in columns)
    told = [name for name in columns if name == label or name in wanted]
    if told:
        raise DataError(
            f"{table.name}: column '{told[0]}' is to be learned and an input, too, which would "
            "tell the answer: leave it out of columns="
        )
    if not inputs:
        raise DataError(f"{table.name} has no column left for the inputs; {there}")
    if label is not None:
        return _Chosen(inputs, places[label] if learned else None)
    return _Chosen(inputs, None, tuple(places[name] for name in learned))


def _header_hint(table: Table) -> str:
    """Say how the first row was understood."""
    if table.has_header:
        return "; if these are values of the first sample, say header=no"
    return "; it has no header, say header=yes if its first row is one"


def _trained_columns(like: About) -> tuple[str, ...]:
    """Return the columns that the weights were trained on."""
    columns = like.preparation.get("columns")
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise DataError("the preparation's 'columns' are no list of names; save the weights again")
    return tuple(columns)


def _agree(name: str, options: dict[str, Any], like: About) -> None:
    """Refuse options that ask for another preparation than the training's."""
    trained = like.preparation
    asked = {
        "missing=mean": (options.get("missing") == "mean", bool(trained.get("fill"))),
        "normalize=standard": (options.get("normalize") == "standard", bool(trained.get("mean"))),
        "divide": (options.get("divide"), trained.get("divide")),
        "columns": (list(options.get("columns", ())), trained.get("columns")),
    }
    for option, (here, there) in asked.items():
        if here and here != there:
            raise DataError(
                f"{name}: {option} is asked for, but the weights were trained without it or with "
                "another value: leave the option out, or train with it"
            )


class _Reader:
    """One pass over a table."""

    def __init__(
        self,
        table: Table,
        chosen: _Chosen,
        options: dict[str, Any],
        like: About | None,
        opening: Opening,
    ) -> None:
        self._table = table
        self._chosen = chosen
        self._options = options
        self._like = like
        self._opening = opening
        mark = options.get("decimal") or ("." if table.separator == "," else "")
        self._numbers = Numbers(mark)
        self._fill = options.get("missing") == "mean"
        known: tuple[str, ...] = ()
        mode = options.get("labels", "")
        if like is not None:
            _agree(table.name, options, like)
            self._fill = bool(like.preparation.get("fill"))
            known, mode = like.classes, mode if like.classes else "numbers"
        self._labels = LabelNumbers(f"{table.name}:{options.get('label')}", known, mode)
        self._moments = Moments(len(chosen.inputs))

    def read(self) -> TableSource:
        """Read the table; every row is checked before any is used."""
        table, chosen = self._table, self._chosen
        with ExitStack() as stack:
            x = stack.enter_context(Spill(f"{table.name}:x", (len(chosen.inputs),), np.float32))
            y: Spill | None = None
            if chosen.label is not None:
                y = stack.enter_context(Spill(f"{table.name}:y", (), np.int32))
            elif chosen.targets:
                shape = (len(chosen.targets),)
                y = stack.enter_context(Spill(f"{table.name}:y", shape, np.float32))
            for values, learned in self._samples():
                x.append(values)
                if y is not None:
                    y.append(learned)
            findings = self._opening.findings
            skip = self._options.get("bad") == "skip"
            findings.settle(table.name, skip=skip, way=_WAY)
            if not x.count:
                raise DataError(f"{table.name} holds no sample that can be used")
            return self._source(x, y)

    def _source(self, x: Spill, y: Spill | None) -> TableSource:
        """Return the source of the rows that were read."""
        about = self._about()
        places, classes = self._labels.numbers()
        if self._chosen.label is not None:
            about = replace(about, classes=classes)
        inputs = _prepared(x, about.preparation)  # owns a file from here on
        target: Column | None = None
        if y is not None:
            labelled = self._chosen.label is not None
            target = Renumbered(y.column(), places) if labelled else y.column()
        notes = [*self._opening.findings.notes, *self._notes(x, about)]
        advice = "labels=names makes every label a name, numbered in order"
        return TableSource(
            self._table.name, inputs, target, tuple(notes), about=about, label_advice=advice
        )

    def _notes(self, x: Spill, about: About) -> Iterator[str]:
        """Yield what a user should know about how the table was understood."""
        name, size = self._table.name, x.count * len(self._chosen.inputs) * 4
        yield (
            f"{name}: {x.count} rows kept in a temporary file of {size} B; `armtrain convert-data` "
            "makes a file that needs no reading of text"
        )
        if not self._table.has_header and "header" not in self._options:
            yield f"{name} has no header (its first row is numbers): columns are 1, 2, ..."
        if about.classes and self._like is None:
            shown = ", ".join(f"{c} = {i}" for i, c in enumerate(about.classes[:8]))
            yield f"{name}: classes {shown}{', ...' if len(about.classes) > 8 else ''}"

    def _about(self) -> About:
        """Return the training's preparation, or the one that this table gives."""
        if self._like is not None:
            return self._like
        options = self._options
        preparation: dict[str, Any] = {
            "columns": [self._table.columns[i] or f"#{i + 1}" for i in self._chosen.inputs]
        }
        for key in ("label", "target"):
            if key in options:
                preparation[key] = options[key]
        if self._fill:
            preparation["fill"] = self._finite(self._moments.mean)
        if options.get("normalize") == "standard":
            preparation["mean"] = self._finite(self._moments.mean)
            deviation = self._moments.deviation
            preparation["deviation"] = np.where(deviation > 0, deviation, 1.0).tolist()
        if "divide" in options:
            preparation["divide"] = options["divide"]
        return About("csv", (), preparation)

    def _finite(self, mean: NDArray[np.float64]) -> list[float]:
        """Return means; refuse a column without a value."""
        empty = np.flatnonzero(np.isnan(mean))
        if len(empty):
            name = self._table.columns[self._chosen.inputs[int(empty[0])]]
            raise DataError(
                f"{self._table.name}: column '{name}' has no value at all; leave it out with "
                f"drop={name}"
            )
        values: list[float] = mean.tolist()
        return values

    def _samples(self) -> Iterator[tuple[NDArray[np.float32], Any]]:
        """Yield inputs and label or targets of every good row."""
        width = len(self._table.columns)
        findings, chosen = self._opening.findings, self._chosen
        for line, cells in self._table.rows():
            reasons: list[str] = []
            if len(cells) != width:
                findings.bad(f"line {line}", f"{len(cells)} cells, the first row has {width}")
                continue
            values = self._values(cells, chosen.inputs, reasons, fill=self._fill)
            if not reasons:
                self._moments.add(values)  # also of a row without a label
            learned: Any = None
            if chosen.label is not None:
                learned = self._label(cells[chosen.label].strip(), reasons)
            elif chosen.targets:
                learned = self._values(cells, chosen.targets, reasons, fill=False)
            if reasons:
                findings.bad(f"line {line}", ", ".join(reasons))
            else:
                yield values, learned

    def _values(
        self, cells: list[str], places: tuple[int, ...], reasons: list[str], *, fill: bool
    ) -> NDArray[np.float32]:
        """Return numbers as float32, missing ones as NaN; add a reason for each bad cell."""
        picked = [cells[i] for i in places]
        fast = self._numbers.row(picked)
        if fast is None:
            fast = [
                self._cell(cell, self._table.columns[i], reasons, fill=fill)
                for i, cell in zip(places, picked, strict=True)
            ]
        with np.errstate(over="ignore"):
            values = np.array(fast, np.float64).astype(np.float32)
        for place in np.flatnonzero(np.isinf(values)).tolist():
            column = self._table.columns[places[place]]
            reasons.append(f"column '{column}': {picked[place].strip():.40} is beyond float32")
        return values

    def _cell(self, cell: str, column: str, reasons: list[str], *, fill: bool) -> float:
        """Return one number, NaN for one that is missing or bad."""
        if is_missing(cell):
            if not fill:
                reasons.append(f"column '{column}' is missing ('{cell.strip()}')")
            return np.nan
        try:
            return self._numbers.one(cell)
        except ValueError as error:
            reasons.append(f"column '{column}': {error}")
            return np.nan

    def _label(self, label: str, reasons: list[str]) -> int:
        """Return the place of a label."""
        known = self._like is not None and label in self._like.classes
        if is_missing(label) and not known:
            reasons.append(f"the label is missing ('{label}')")
        if reasons:
            return 0  # a row that is left out adds no class
        try:
            return self._labels.place(label)
        except ValueError as error:
            reasons.append(f"the label {error}")
            return 0


def _prepared(x: Spill, preparation: Any) -> Prepared:
    """Return the inputs with the rules of a preparation; refuse rules of another width."""

    def rule(key: str) -> NDArray[np.float32] | None:
        if preparation.get(key) is None:
            return None
        try:
            values = np.array(preparation[key], np.float32)
        except (ValueError, TypeError) as error:
            raise DataError(f"the preparation's '{key}' is damaged: {error}") from error
        if values.shape not in ((), (len(preparation["columns"]),)):
            raise DataError(f"the preparation's '{key}' has shape {values.shape}, one per column")
        return values

    scale = rule("deviation") if "deviation" in preparation else rule("divide")
    fill, offset = rule("fill"), rule("mean")
    return Prepared(x.column(), fill=fill, offset=offset, scale=scale)
