"""Patterns and their parts."""

from __future__ import annotations

import pytest

from mlflow_ragmetrics.text.words import lines_of, pattern_of

PARTS = ("source", "tell", "knowledge", "adverbs", "denied")


@pytest.mark.parametrize("name", ["refusals", "asides"])
def test_the_parts_of_a_pattern_take_their_places(name: str) -> None:
    used = [part for part in PARTS if any(f"<{part}>" in line for line in lines_of(name))]
    assert "source" in used
    pattern = pattern_of(name, **{part: f"(?:a {part} here)" for part in used}).pattern
    assert not any(f"<{part}>" in pattern for part in PARTS)
    assert all(f"a {part} here" in pattern for part in used)


def test_a_pattern_matches_with_its_parts_ignoring_case() -> None:
    parts = dict.fromkeys(PARTS, "") | {"source": "ledgers?", "tell": "(?:tell|show)"}
    pattern = pattern_of("refusals", **parts)
    assert pattern.search("The LEDGER does not show")
    assert not pattern.search("The <source> does not <tell>")
    assert not pattern.search("The ledger does show")
