from __future__ import annotations

import mlflow_ragmetrics as rm

ROWS = [
    {"id": "good", "question": "How high?", "answer": "It is 330 metres high.", "contexts": ["It is 330 metres high."]},
    {"id": "bad", "question": "<b>When?</b>", "answer": "It was built in 1925.", "contexts": ["Nobody knows."]},
]


def _shown(**options: object) -> str:
    return rm.Suite(["faithfulness", "coherence"], **options).evaluate(ROWS)._repr_html_()  # type: ignore[arg-type]


def test_a_report_shows_its_figures_and_its_worst_rows() -> None:
    report = rm.Suite(["coherence", "faithfulness"]).evaluate(ROWS)
    shown = report._repr_html_()
    assert f"{report.metrics['faithfulness/mean']:.3f}" in shown
    assert shown.index(">bad<") < shown.index(">good<")
    assert "The 2 worst rows by unsupported claims" in shown
    assert "Judge: lexical, offline." in shown
    assert "contradicted" in shown or "not in the passages" in shown


def test_the_datas_own_markup_is_escaped() -> None:
    shown = _shown()
    assert "<b>" not in shown
    assert "&lt;b&gt;When?&lt;/b&gt;" in shown


def test_what_was_left_out_is_said() -> None:
    shown = rm.Suite.preset("white_paper").evaluate(ROWS)._repr_html_()
    assert "Warning: " in shown


def test_nothing_scored_is_no_table_of_zeros() -> None:
    report = rm.Suite([rm.faithfulness], judge=rm.ScriptedJudge(error="down")).evaluate(ROWS)
    shown = report._repr_html_()
    assert ">2</span></td>" in shown
    assert "worst row" not in shown


def test_a_metric_without_a_mean_has_none_in_the_table() -> None:
    suite = rm.Suite([rm.faithfulness, "coherence"], judge=rm.ScriptedJudge(error="down"))
    assert "–</span></td>" in suite.evaluate(ROWS)._repr_html_()


def test_a_report_says_its_means_in_one_line() -> None:
    report = rm.Suite(["coherence"]).evaluate(ROWS)
    assert repr(report) == f"<Report of 2 rows: coherence {report.metrics['coherence/mean']:.3f}>"
