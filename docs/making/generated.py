"""The generated parts of the pages: ``<!-- table: speed -->`` … ``<!-- /table -->`` and their kin.

``python docs/making`` writes them into the pages, and a test compares. The text around them is written by people.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from making import benchmark_tables, metric_facts, picture, python_reference, reference

__all__ = ["DOCS", "current"]

DOCS = Path(__file__).parents[1]
MAKERS: dict[str, Callable[[str], str]] = {
    "table": benchmark_tables.shown,
    "metric": metric_facts.definition,
    "agreement": metric_facts.agreement,
    "options": metric_facts.options,
    "python": python_reference.group,
    "reference": reference.part,
}
_PART = re.compile(rf"^<!-- ({'|'.join(MAKERS)}): ([\w, ]+) -->\n.*?^<!-- /\1 -->$", re.MULTILINE | re.DOTALL)


def current() -> dict[Path, str]:
    """Every file that has generated parts, as it should be now."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
    made = {path: _PART.sub(_part, text) for path, text in pages.items() if _PART.search(text)}
    return {**made, DOCS / "_static" / "how_it_works.svg": picture.drawn()}


def _part(found: re.Match[str]) -> str:
    kind, name = found.groups()
    return f"<!-- {kind}: {name} -->\n\n{MAKERS[kind](name).strip()}\n\n<!-- /{kind} -->"
