"""All lines at once give what line by line gives."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_ragmetrics.metrics.rouge import lcs as lines
from mlflow_ragmetrics.metrics.rouge.lcs import clipped_matches, common_places, places_of

LINES = st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=10).map(tuple), max_size=5)


def line_by_line(accepted: list[tuple[str, ...]], answer: list[tuple[str, ...]]) -> int:
    """The summary-level count of the ``rouge_score`` package, token by token."""
    left = Counter(token for line in answer for token in line)
    hits = 0
    for line in accepted:
        places = places_of(line)
        for place in {place for other in answer for place in common_places(line, places, other)}:
            hits += left[line[place]] > 0
            left[line[place]] -= 1
    return hits


@settings(max_examples=300, deadline=None)
@given(LINES, LINES)
def test_side_by_side_equals_line_by_line(accepted: list[tuple[str, ...]], answer: list[tuple[str, ...]]) -> None:
    assert clipped_matches(accepted, answer) == line_by_line(accepted, answer)


@settings(max_examples=50, deadline=None)
@given(LINES, LINES)
def test_texts_too_large_for_one_table(accepted: list[tuple[str, ...]], answer: list[tuple[str, ...]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_LARGEST_TABLE", 0)
        assert clipped_matches(accepted, answer) == line_by_line(accepted, answer)


def test_lines_longer_than_a_machine_word() -> None:
    line, other = tuple("ab" * 100), tuple("ba" * 100)
    assert clipped_matches([line, ("z",)], [other, ("z", "y")]) == 200
