"""`armtrain check-data`: read all data once, say what is wrong, write what training may trust."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from armtrain.cli.common import Subparsers, UsageError, data_spec, path_text, print_json
from armtrain.cli.parser import Parser, describe_data

if TYPE_CHECKING:
    from armtrain.data.findings import Findings
    from armtrain.data.source import TableSource
    from armtrain.data.spec import Spec
    from armtrain.data.survey import ClassCount, Range, Survey

__all__ = ["add_parser", "run"]

_SHOWN = 20


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the verb."""
    parser: Parser = subparsers.add_parser(
        "check-data",
        help="read data once: bad files, classes, ranges; write a manifest",
        description="Read all data once and say what is bad, how many samples each class has and\n"
        "in which range values lie. Exit code 1 when a training would refuse something.",
    )
    parser.details = (describe_data,)
    parser.add_argument("data", metavar="SPEC", type=data_spec)
    parser.add_argument(
        "-o",
        "--output",
        metavar="F.json",
        type=path_text,
        help="write a manifest of the good samples: --data manifest:F.json checks nothing again",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Check, print and write."""
    from armtrain.data.findings import Findings, Opening
    from armtrain.data.spec import open_table, parse_spec
    from armtrain.data.survey import survey
    from armtrain.errors import DataError

    spec = parse_spec(args.data)
    if spec.kind == "random":
        raise UsageError("SPEC: random: data are made, not read: there is nothing to check")
    if spec.kind == "manifest" and args.output:
        raise UsageError("-o: SPEC is a manifest already; give the SPEC that it was made from")
    findings = Findings(lenient=True)
    try:
        with open_table(spec, Opening(findings=findings)) as source:
            found = survey(source)
            written = bool(args.output) and not found.errors
            if written:
                _save(args.output, spec, source, found, findings)
            report = _report(args.data, found, findings, source.notes)
    except DataError as error:
        written = False
        report = _report(args.data, None, findings, ()) | {"errors": [str(error)]}
    skipping = spec.options.get("bad") == "skip"
    report["usable"] = not report["errors"] and (skipping or not findings.problem_count)
    report["manifest"] = args.output if written else None
    if args.json:
        print_json(report)
    else:
        _print(report, args.output)
    return 0 if report["usable"] else 1


def _save(path: str, spec: Spec, source: TableSource, found: Survey, findings: Findings) -> None:
    """Write the manifest."""
    from armtrain.data.manifest import Manifest, stamp_files

    origin = source.origin
    paths = origin.paths if origin is not None else spec.paths
    labels = origin.labels if origin is not None else (-1,) * len(paths)
    numbers = [c.number for c in found.classes if c.count]
    Manifest(
        kind=spec.kind,
        paths=spec.paths,
        options=spec.text,
        part=spec.part,
        samples=found.samples,
        bad=findings.problem_count,
        labels=(min(numbers), max(numbers)) if numbers else (),
        about=source.about,
        files=stamp_files(paths, labels),
        facts=dict(origin.facts) if origin is not None else {},
    ).save(path)


def _report(
    data: str, found: Survey | None, findings: Findings, notes: tuple[str, ...]
) -> dict[str, Any]:
    """Return everything as JSON values."""
    return {
        "data": data,
        "samples": found.samples if found else 0,
        "inputs": _range(found.inputs) if found else None,
        "targets": _range(found.targets) if found and found.targets else None,
        "classes": [asdict(c) for c in found.classes] if found else [],
        "balanced_weights": _weights(found.classes if found else ()),
        "bad_count": findings.problem_count,
        "bad": [asdict(p) for p in findings.problems],
        "skipped_count": findings.skipped_count,
        "skipped": findings.skipped,
        "conversions": dict(sorted(findings.conversions.items())),
        "warnings": list(found.warnings) if found else [],
        "errors": list(found.errors) if found else [],
        "notes": list(notes),
    }


def _weights(classes: tuple[ClassCount, ...]) -> list[float] | None:
    """Return the weights that make up for unlike classes; None unless each has samples."""
    from armtrain.data.balance import balanced

    counts = [c.count for c in classes]
    numbered = [c.number for c in classes] == list(range(len(classes)))
    return list(balanced(counts)) if counts and numbered and all(counts) else None


def _range(found: Range) -> dict[str, Any]:
    """Return a range; JSON has no NaN."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in asdict(found).items()
    }


def _print(report: dict[str, Any], output: str | None) -> None:
    """Print the report for people."""
    print(f"{report['data']}: {report['samples']} samples")
    for what in ("inputs", "targets"):
        found = report[what]
        if found:
            shape = "x".join(map(str, found["shape"])) or "one number"
            low, high, mean = (_text(found[key]) for key in ("low", "high", "mean"))
            print(f"{what:10s}{shape} {found['dtype']}, values {low}..{high}, mean {mean}")
    for item in report["classes"][:_SHOWN]:
        print(f"  class {item['number']:>4} {item['name'] or '':20s} {item['count']:>8}")
    _more(report["classes"], len(report["classes"]), "classes")
    weights = report["balanced_weights"] or ()
    if 1 < len(weights) <= _SHOWN and len(set(weights)) > 1:
        listed = "/".join(f"{weight:.4g}" for weight in weights)
        print(f"balanced: --loss cross_entropy:weight={listed}")
    _print_findings(report)
    if report["manifest"]:
        left = " without the bad ones" if report["bad_count"] else ""
        print(f"manifest: {output} ({report['samples']} samples{left}); --data manifest:{output}")
    verdict = "good" if report["usable"] else "a training would refuse this"
    print(f"verdict: {verdict}")


def _print_findings(report: dict[str, Any]) -> None:
    """Print what was found beside the counts."""
    for title in ("warnings", "errors"):
        for line in report[title]:
            print(f"{title[:-1]}: {line}")
    for item in report["bad"][:_SHOWN]:
        print(f"bad: {item['place']}: {item['reason']}")
    _more(report["bad"], report["bad_count"], "bad places")
    for line in report["skipped"][:_SHOWN]:
        print(f"skipped: {line}")
    _more(report["skipped"], report["skipped_count"], "skipped")
    for text, count in report["conversions"].items():
        print(f"converted: {count} {text}")
    for line in report["notes"]:
        print(f"note: {line}")


def _more(listed: list[Any], count: int, what: str) -> None:
    """Say how much is not shown."""
    if count > min(_SHOWN, len(listed)):
        print(f"  ... {count} {what} in all (--json lists up to 1000)")


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
