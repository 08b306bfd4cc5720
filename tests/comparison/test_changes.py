"""The rows that changed most: their order, the direction of their change, their items, causes and thresholds."""

from __future__ import annotations

from typing import Any

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.comparison.changes import ChangedItem
from mlflow_ragmetrics.core.score import Item, Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.results import DIAGNOSIS_COLUMNS, results_of, stored

from .reports import ALIKE, report_of


def of_rows(rows: list[dict[str, Score]], **description: Any) -> Report:
    """A report of these scores; row 1 has neither question nor answer."""
    samples = [
        Sample(id=f"r{n}", question=f"q{n}", answer=f"a{n}") if n != 1 else Sample(id=f"r{n}") for n in range(len(rows))
    ]
    found = [Row(sample, scores, n) for n, (sample, scores) in enumerate(zip(samples, rows, strict=True))]
    return Report(found, description={**ALIKE, "metrics": list(rows[0]), **description})


def test_rows_are_in_the_order_of_their_change_which_counts_each_direction() -> None:
    def row(good: float | None, bad: float, neutral: float) -> dict[str, Score]:
        return {
            "good": Score(good),
            "bad": Score(bad, higher_is_better=False),
            "neutral": Score(neutral, higher_is_better=None),
        }

    a = of_rows([row(0.5, 0.5, 0.5), row(0.5, 0.5, 0.5), row(None, 0.5, 0.5), row(0.5, 0.5, 0.5)])
    b = of_rows([row(0.5, 0.5, 0.5), row(0.5, 0.5, 0.9), row(0.5, 0.2, 0.5), row(0.75, 0.25, 0.7)])
    found = rm.compare(a, b).rows
    assert [(each.id, round(each.change, 9)) for each in found] == [
        ("r3", round((0.25 + 0.25) / 3, 9)), ("r1", 0.0), ("r2", 0.1),
    ]  # fmt: skip
    assert found[2].scores == {"good": (None, 0.5), "bad": (0.5, 0.2), "neutral": (0.5, 0.5)}
    assert (found[0].question, found[0].answer_a, found[0].answer_b) == ("q3", "a3", "a3")
    assert (found[1].question, found[1].answer_a, found[1].causes) == ("", "", None)
    assert [each.id for each in rm.compare(a, b, rows=1).rows] == ["r3"]


def test_an_item_is_named_once_with_its_metrics_and_bad_verdicts_first() -> None:
    def scores(first: tuple[Item, ...], second: tuple[Item, ...], value: float) -> list[dict[str, Score]]:
        return [{"one": Score(value, items=first), "two": Score(value, items=second)}]

    def claim(text: str, verdict: str, against: Any = None) -> Item:
        return Item("claim", text, verdict, against=against)  # type: ignore[arg-type]

    a = of_rows(scores(
        (claim("x", "SUPPORTED"), claim("y", "SUPPORTED"), claim("only a", "NEUTRAL"), claim("same", "NEUTRAL")),
        (claim("x", "SUPPORTED", "reference"), claim("z", "NEUTRAL", "reference")), 0.5,
    ))  # fmt: skip
    b = of_rows(scores(
        (claim("x", "NEUTRAL"), claim("y", "RELATED"), claim("only b", "SUPPORTED"), claim("same", "NEUTRAL")),
        (claim("x", "NEUTRAL", "reference"), claim("z", "CONTRADICTED", "reference")), 0.9,
    ))  # fmt: skip
    (row,) = rm.compare(a, b).rows
    assert row.items == (
        ChangedItem("one, two", "claim", "x", "SUPPORTED", "NEUTRAL", None),
        ChangedItem("two", "claim", "z", "NEUTRAL", "CONTRADICTED", "reference"),
        ChangedItem("one", "claim", "y", "SUPPORTED", "RELATED", None),
        ChangedItem("one", "claim", "only a", "NEUTRAL", None, None),
        ChangedItem("one", "claim", "only b", None, "SUPPORTED", None),
    )
    assert [each.verdicts for each in row.items[:2]] == [
        "supported → not in the passages", "not supported → contradicted",
    ]  # fmt: skip
    assert [each.verdicts for each in row.items[3:]] == ["not in the passages → not in B", "not in A → supported"]


def test_the_causes_of_both_sides_are_named() -> None:
    def diagnosed(values: list[float], causes: list[str]) -> Evaluation:
        found = results_of(report_of(values), "side")
        return stored("side", found.table.assign(**dict.fromkeys(DIAGNOSIS_COLUMNS, causes)), found.items)

    before, after = diagnosed([0.1, 0.5], ["retrieval", "right"]), diagnosed([0.9, 0.5], ["right", "answer"])
    (row,) = rm.compare(before, after).rows
    assert row.causes == ("retrieval", "right")
    plain = results_of(report_of([0.9, 0.5]), "side")
    assert rm.compare(before, plain).rows[0].causes is None
