"""A comparison as Markdown: verdicts, gates, a table, the rows; text from the data never becomes markup."""

from __future__ import annotations

import re

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Item

from .reports import noisy, report_of

HOSTILE = "a | `b` <img src=x onerror=alert(1)> @team\n# heading [x](http://evil.example)"


def comparison(shift: float) -> rm.Comparison:
    def items(verdict: str) -> list[tuple[Item, ...]]:
        return [(Item("claim", HOSTILE, verdict),)] * 60  # type: ignore[arg-type]

    before = report_of(noisy(60), items=items("SUPPORTED"), threshold=0.5)
    after = report_of(noisy(60, shift=shift, seed=1), items=items("CONTRADICTED"), answer=HOSTILE, threshold=0.5)
    return rm.compare(before, after, rows=2)


def test_the_summary_says_what_was_found_and_which_gate_failed() -> None:
    text = comparison(-0.2).to_markdown(["regressed"])
    assert text.startswith("## B against A: 60 rows paired by id, tolerance 0.05\n\nB is worse on faithfulness")
    assert "- 🔴 **Gate failed**: B vs A: regressed: faithfulness" in text
    assert re.search(r"^\| faithfulness \| 🔴 regressed \| 0\.\d{3} \| .*\|$", text, re.MULTILINE)
    assert "<details><summary>2 rows that changed most</summary>" in text
    assert "**supported → contradicted** (claim)" in text


def test_without_a_gate_none_is_said_to_fail_and_texts_are_no_markup() -> None:
    text = comparison(-0.2).to_markdown()
    assert not any(word in text for word in ("Gate", "http://", "@team"))
    assert not re.search(r"(?<!\\)<img", text)
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1
    better = comparison(0.2).to_markdown(["regressed"])
    assert ("Gate" in better, "🟢" in better) == (False, True)
