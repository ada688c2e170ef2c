"""What opening data finds: bad places with reasons, what was skipped, what was converted.

One object serves both ways of opening: a training refuses the data with the first places and
their number, `armtrain check-data` lists them all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from armtrain.data.about import About
from armtrain.errors import DataError

__all__ = ["Findings", "Opening", "Problem", "printable"]

_KEPT = 1000
_SHOWN = 5


@dataclass(frozen=True)
class Problem:
    """A place of the data (a line, a file) that cannot be used, and why."""

    place: str
    reason: str


@dataclass
class Findings:
    """Collected while data are opened.

    Attributes
    ----------
    problems : list of Problem
        The first 1,000.
    problem_count : int
        All.
    skipped : list of str
        What is no sample by rule (hidden folders, other files), at most 1,000.
    conversions : Counter of str
        How often samples were converted ('RGBA on white').
    notes : list of str
        Lines for the user.
    lenient : bool
        Bad places are listed, and left out, by whoever asked for them.
    """

    problems: list[Problem] = field(default_factory=list)
    problem_count: int = 0
    skipped: list[str] = field(default_factory=list)
    skipped_count: int = 0
    conversions: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    lenient: bool = False

    def bad(self, place: str, reason: str) -> None:
        """Remember a bad place."""
        self.problem_count += 1
        if len(self.problems) < _KEPT:
            self.problems.append(Problem(printable(place), reason))

    def skip(self, what: str) -> None:
        """Remember what was passed over."""
        self.skipped_count += 1
        if len(self.skipped) < _KEPT:
            self.skipped.append(printable(what))

    def settle(self, name: str, *, skip: bool, way: str) -> None:
        """Refuse data with bad places, or note that these are left out.

        Parameters
        ----------
        name : str
            The data, for the message.
        skip : bool
            Bad samples are left out.
        way : str
            What would work, for the message.

        Raises
        ------
        DataError
            Naming the first bad places and their number.
        """
        if not self.problem_count or self.lenient:
            return
        shown = "; ".join(f"{p.place}: {p.reason}" for p in self.problems[:_SHOWN])
        more = self.problem_count - min(_SHOWN, len(self.problems))
        listed = shown + (f"; and {more} more" if more else "")
        if not skip:
            raise DataError(f"{name} has {self.problem_count} bad place(s): {listed}; {way}")
        self.notes.append(f"{name}: {self.problem_count} bad sample(s) left out ({listed})")

    def settle_notes(self, name: str) -> None:
        """Add lines for what was passed over and converted."""
        if self.skipped_count:
            more = ", ..." if self.skipped_count > _SHOWN else ""
            shown = ", ".join(self.skipped[:_SHOWN])
            self.notes.append(f"{name}: {self.skipped_count} skipped ({shown}{more})")
        if self.conversions:
            counts = ", ".join(f"{text}: {n}" for text, n in sorted(self.conversions.items()))
            self.notes.append(f"{name}: converted {counts}")


def printable(path: str) -> str:
    """Return a file's name as any output takes it: bytes that are no UTF-8 become escapes."""
    return path.encode(errors="backslashreplace").decode()


@dataclass
class Opening:
    """How data are opened.

    Attributes
    ----------
    targets : bool
        Labels or targets are needed; predictions do without.
    like : About or None
        Class names and preparation to reuse, of the data that the weights were trained on.
    wanted : tuple of int
        Input shape of the plan, where there is one: images take its size and channels.
    findings : Findings
    """

    targets: bool = True
    like: About | None = None
    wanted: tuple[int, ...] = ()
    findings: Findings = field(default_factory=Findings)

    def like_kind(self, kind: str) -> About | None:
        """Return what to reuse.

        Raises
        ------
        DataError
            It is of another kind of data, whose classes and preparation mean nothing here.
        """
        if self.like is not None and self.like.kind != kind:
            raise DataError(
                f"these are {kind}: data, but class names and preparation come from "
                f"{self.like.kind}: data: give the same kind as for the training, or arrays"
            )
        return self.like
