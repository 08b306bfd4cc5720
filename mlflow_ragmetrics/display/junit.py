"""JUnit XML for CI servers: suites of cases, such as the gates and the rows of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from mlflow_ragmetrics.core.safe_text import plain_text, redact
from mlflow_ragmetrics.core.score import Score, passes
from mlflow_ragmetrics.display.document import clean_lines
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.results.gates import Check
from mlflow_ragmetrics.rows.record import shown_id

_FORBIDDEN = dict.fromkeys((0xFFFE, 0xFFFF), "\ufffd")


@dataclass(frozen=True)
class Case:
    """One test case: its name, why it failed or was skipped (``None``: neither), properties and output."""

    name: str
    failure: str | None = None
    skipped: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    output: str = ""


def gate_cases(checks: Sequence[Check]) -> list[Case]:
    """One case per gate; a passed gate has its reason as output."""
    return [
        Case(c.name, output=redact(c.reason)) if c.passed else Case(c.name, failure=redact(c.reason)) for c in checks
    ]


def row_cases(
    rows: Sequence[Row],
    checks: Sequence[Check],
    fail_under: Mapping[str, float] | None = None,
    fail_over: Mapping[str, float] | None = None,
) -> list[Case]:
    """One case per row: its scores as properties, their reasons as output.

    A row fails if its score misses the limit of a failed gate or was not measured. If every gate passed, no row fails,
    so the file agrees with the exit code.
    """
    most = {name if "/" in name else f"{name}/mean": limit for name, limit in (fail_over or {}).items()}
    limits = {name if "/" in name else f"{name}/mean": limit for name, limit in (fail_under or {}).items()}
    failed = [check.name.replace("/repeat_", "/") for check in checks if not check.passed]
    cases = []
    for row in rows:
        faults = [
            _fault(name, row.scores.get(name.partition("/")[0]), limits.get(name), most.get(name)) for name in failed
        ]
        reasons = {key: score.error or score.reason for key, score in row.scores.items()}
        unscored = next(iter(reasons.values()), "no score") if not any(s.scored for s in row.scores.values()) else None
        cases.append(
            Case(
                shown_id(row.sample, row.index),
                failure=redact("\n".join(filter(None, faults))) or None,
                skipped=None if unscored is None else redact(unscored),
                properties={key: _shown(score) for key, score in row.scores.items()},
                output=redact("\n".join(f"{key}: {reason}" for key, reason in reasons.items() if reason)),
            )
        )
    return cases


def _fault(name: str, score: Score | None, limit: float | None, most: float | None) -> str | None:
    """Why this score contributes to the failed gate ``name``; ``None`` if it does not."""
    key, _, figure = name.partition("/")
    if score is None:
        return None
    if score.value is None or not score.measured:
        return f"{key} was not measured: {score.cause}"
    if figure == "pass_rate":
        return f"{key} is {score.value:.4f}, below its threshold {score.threshold:g}" if score.passed is False else None
    if most is not None and score.value > most + 1e-9:
        return f"{key} is {score.value:.4f}, above the gate's {most:g}: {score.reason}"
    if limit is None or figure in ("coverage", "n_scored", "n_measured") or passes(score.value, limit):
        return None
    return f"{key} is {score.value:.4f}, below the gate's {limit:g}: {score.reason}"


def _shown(score: Score) -> str:
    return str(score.status) if score.value is None else f"{score.value:.6g}"


def to_junit(suites: Mapping[str, Sequence[Case]]) -> str:
    """JUnit XML with one test suite per name; the first line of a failure is its message."""
    root = Element("testsuites", _counts([case for cases in suites.values() for case in cases]))
    for name, cases in suites.items():
        suite = SubElement(root, "testsuite", {"name": _text(name), **_counts(cases)})
        for case in cases:
            _add(suite, name, case)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, "unicode")}\n'


def _add(suite: Element, name: str, case: Case) -> None:
    element = SubElement(suite, "testcase", {"classname": _text(name), "name": _text(case.name)})
    if case.properties:
        properties = SubElement(element, "properties")
        for key, value in case.properties.items():
            SubElement(properties, "property", {"name": _text(key), "value": _text(value)})
    if case.failure is not None:
        message, _, rest = case.failure.partition("\n")
        failure = SubElement(element, "failure", {"message": _text(message)})
        failure.text = _text(case.failure) if rest else None
    elif case.skipped is not None:
        SubElement(element, "skipped", {"message": _text(case.skipped)})
    if case.output:
        SubElement(element, "system-out").text = _text(case.output)


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    failures = sum(case.failure is not None for case in cases)
    skipped = sum(case.failure is None and case.skipped is not None for case in cases)
    return {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "skipped": str(skipped)}


def _text(text: str) -> str:
    return clean_lines(plain_text(text)).translate(_FORBIDDEN)
