"""The tests that the page on security names exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_threat_has_tests() -> None:
    page = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
    table = page.partition("| threat |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(table) > 20
    for line in table:
        named = re.findall(r"`(tests/[\w/]+\.py)`", line)
        assert named, line
        assert all((ROOT / name).exists() for name in named), line
