"""Comparisons over groups of rows, their slices, and their summaries in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.report import Report

from .reports import ALIKE, noisy, report_of


def side(shift: float, groups: int, *, turns: int = 6, seed: int = 0, spread: float = 0.2) -> Report:
    """Conversations that a version improves or worsens as a whole, on average by ``shift``."""
    draw = np.random.default_rng(seed)
    own = shift + draw.normal(0, spread, groups)
    rows = [
        Row(
            Sample(id=f"{g}-{t}", question=f"{g} {t}", metadata={"chat": f"c{g}", "topic": "ab"[g % 2]}),
            {"m": Score(float(np.clip(0.5 + own[g] + draw.normal(0, 0.02), 0, 1)))},
        )
        for g in range(groups)
        for t in range(turns)
    ]
    return Report(rows, description=dict(ALIKE))


def test_groups_widen_the_interval_and_decide_the_verdict() -> None:
    a, b = side(0.0, 12, spread=0), side(0.07, 12, spread=0.1, seed=3)
    rows, groups = rm.compare(a, b)["m"], rm.compare(a, b, groups="chat")["m"]
    assert rows.verdict == "improved"
    assert groups.verdict == "cannot be told"
    assert (groups.groups, groups.few_groups) == (12, False)
    assert (groups.design_effect or 0) > 3
    assert (groups.needed or 0) > (rows.rows or 0)
    assert rows.needed is None


def test_the_groups_of_the_evaluation_are_used_by_themselves() -> None:
    a, b = side(0.0, 12), side(0.3, 12, seed=1)
    described = replace(a, description={**a.description, "groups": "chat"})
    assert rm.compare(described, b)["m"] == rm.compare(a, b, groups="chat")["m"]
    names = [row.sample.metadata["chat"] for row in a.rows]
    assert rm.compare(a, b, groups=names)["m"] == rm.compare(a, b, groups="chat")["m"]


def test_no_difference_in_few_groups_carries_the_mark() -> None:
    found = rm.compare(side(0.0, 4), side(0.0, 4), groups="chat")
    assert found["m"].few_groups
    assert found["m"].verdict == "cannot be told"
    assert "(few groups)" in found.plain
    assert "few" in found.to_html()
    assert found.table["few_groups"].tolist() == [True]


def test_repeated_questions_warn() -> None:
    a, b = side(0.0, 30, spread=0), side(0.1, 30, seed=1)
    asked = [f"question {n // 6}" for n in range(180)]
    twice = [
        replace(
            each, rows=[replace(r, sample=replace(r.sample, question=q)) for r, q in zip(each.rows, asked, strict=True)]
        )
        for each in (a, b)
    ]
    assert any("share their question" in warning for warning in rm.compare(*twice).warnings)
    assert not rm.compare(*twice, groups="question").warnings


def test_slices_are_adjusted_together_and_small_ones_marked() -> None:
    found = rm.compare(side(0.0, 12), side(0.4, 12, seed=1), groups="chat").by("topic")
    assert found["slice"].tolist() == ["a", "b"]
    assert set(found["mark"]) == {"few groups"}
    assert found["groups"].tolist() == [6, 6]
    assert (found["p_holm"] >= found["p_value"]).all()
    assert found["p_holm"].min() == pytest.approx(2 * found["p_value"].min())
    with pytest.raises(InvalidOptionError, match="by: no row has 'colour'"):
        rm.compare(side(0.0, 12), side(0.4, 12)).by("colour")


def test_plain_words_say_how_many_rows_would_tell() -> None:
    found = rm.compare(report_of(noisy(30, noise=0.3)), report_of(noisy(30, noise=0.3, seed=1)))
    needed = found["faithfulness"].needed
    assert found.plain.startswith("no verdict on faithfulness with 30 rows (about ")
    assert needed <= int(found.plain.removesuffix(" needed).").rsplit(" ", 1)[1]) <= 1.1 * needed + 1
    assert found.plain in found.to_text()
    assert found.plain in found.to_html()


def test_needed_never_stands_beside_a_verdict_that_is_reached() -> None:
    found = rm.compare(report_of(noisy(60)), report_of(noisy(60, shift=0.2, seed=1)))
    assert found.verdict == {"faithfulness": "improved"}
    assert found["faithfulness"].needed is None
    assert found["faithfulness"].figures(1.0)["needed"] == "–"
    worse = rm.compare(report_of(noisy(60, shift=0.2, seed=1)), report_of(noisy(60)))
    assert worse.plain.startswith("B is worse on faithfulness (-0.")
    same = rm.compare(report_of(noisy(80)), report_of(noisy(80)))
    assert same.plain == "B is within 0.05 of A on faithfulness (+0.00 [-0.05, 0.05], 80 rows)."
