"""Results of fixed inputs, kept in files beside the tests, so that no figure or sentence changes unnoticed.

If a result changes on purpose, run the test once with ``RAGMETRICS_RECORD=1`` and read the file's diff.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest


def check_recorded(found: dict[str, Any], record: Path) -> None:
    """Compare results with the file ``record``, a line each; numbers may differ by a millionth of their size."""
    found = json.loads(json.dumps(found, default=str), parse_float=lambda text: float(f"{float(text):.9g}"))
    if os.environ.get("RAGMETRICS_RECORD"):
        lines = (f"{json.dumps(name)}: {json.dumps(each, ensure_ascii=False)}" for name, each in found.items())
        record.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    expected = json.loads(record.read_text(encoding="utf-8"))
    assert list(islice(differences(found, expected), 5)) == []


def differences(found: Any, expected: Any, place: str = "") -> Iterator[str]:
    """Where the two differ, with both values."""
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        for key, each in found.items():
            yield from differences(each, expected[key], f"{place}/{key}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for number, pair in enumerate(zip(found, expected, strict=True)):
            yield from differences(*pair, f"{place}/{number}")
    elif isinstance(found, float) or isinstance(expected, float):
        if found != pytest.approx(expected, rel=1e-6, abs=1e-9, nan_ok=True):
            yield f"{place}: {found} instead of {expected}"
    elif found != expected:
        yield f"{place}: {found!r} instead of {expected!r}"
