"""Gates as JUnit XML, for CI servers."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from mlflow_ragmetrics.core.safe_text import plain_text, redact
from mlflow_ragmetrics.display.document import clean_lines
from mlflow_ragmetrics.results.gates import Check

_FORBIDDEN = dict.fromkeys((0xFFFE, 0xFFFF), "\ufffd")


def to_junit(checks: Sequence[Check]) -> str:
    """JUnit XML with one test case per gate. A passed gate has its reason as output, a failed one as message."""
    failures = sum(not check.passed for check in checks)
    counts = {"tests": str(len(checks)), "failures": str(failures), "errors": "0", "skipped": "0"}
    root = Element("testsuites", counts)
    suite = SubElement(root, "testsuite", {"name": "gates", **counts})
    for check in checks:
        case = SubElement(suite, "testcase", {"classname": "gates", "name": _text(check.name)})
        if check.passed:
            SubElement(case, "system-out").text = _text(check.reason)
        else:
            SubElement(case, "failure", {"message": _text(check.reason)})
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, "unicode")}\n'


def _text(text: str) -> str:
    return clean_lines(plain_text(redact(text))).translate(_FORBIDDEN)
