"""Markup, escapes, control characters, direction changes, lone surrogates and NUL are shown harmlessly and stored."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import mlflow
import pytest
from click.testing import CliRunner

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from tests.faults.strange import HOSTILE

ROWS = [
    {
        "id": f"{n}{text}",
        "question": text,
        "answer": text,
        "reference": text,
        "contexts": [text, "x"],
        text or "-": text,
    }
    for n, text in enumerate(HOSTILE)
    if not text.startswith(("['", '["'))  # printed lists are no questions, as in any other data
]
PLAIN = [
    {"id": str(n), "question": "a b", "answer": "a b", "reference": "a b", "contexts": ["a", "x"]} for n in range(40)
]
PLAIN = PLAIN[: len(ROWS)]
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Tags(HTMLParser):
    """The elements of a page with their attributes, as a browser parses them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Stores the element."""
        self.found.append((tag, dict(attrs)))


def assert_harmless(page: str, plain: str) -> None:
    """Every element, handler and address in ``page`` is also in the same page over plain texts."""
    page.encode("utf-8")
    allowed = {tag for tag, _ in Tags(plain).found}
    scripts = plain.count("<script")
    for tag, attributes in Tags(page).found:
        assert tag in allowed, tag
        assert not any(name.startswith("on") for name in attributes), attributes
        assert not str(attributes.get("href", "")).lower().startswith("javascript")
    assert page.count("<script") == scripts


@pytest.fixture(scope="module")
def reports() -> tuple[rm.Report, rm.Report]:
    """Evaluations of hostile texts and of the same number of plain ones."""
    suite = rm.Suite.preset("full")
    return suite.evaluate(ROWS), suite.evaluate(PLAIN)


def test_scores_and_tables(reports: tuple[rm.Report, rm.Report]) -> None:
    report = reports[0]
    assert len(report.table) == len(ROWS)
    assert len(report.items) > len(ROWS)
    assert not [score.error for row in report.rows for score in row.scores.values() if score.status == "error"]


def test_pages(reports: tuple[rm.Report, rm.Report]) -> None:
    report, plain = reports
    assert_harmless(report.to_html(), plain.to_html())
    for row, same in zip(report.rows, plain.rows, strict=True):
        for key, score in row.scores.items():
            tags = [tag for tag, _ in Tags(score._repr_html_()).found]
            assert tags.count("style") == 1, key
            assert set(tags) <= {
                "style",
                "div",
                "strong",
                "span",
                "p",
                "table",
                "thead",
                "tbody",
                "tr",
                "th",
                "td",
            }, key
            assert same.scores[key].status != "error"
    suite, pages = rm.Suite.preset("full"), []
    for before, rows in ((report, ROWS), (plain, PLAIN)):
        after = suite.evaluate([{**row, "answer": "something else"} for row in rows])
        pages.append(rm.compare(before, after, resamples=100).to_html())
    assert_harmless(*pages)


def test_a_run_in_mlflow(reports: tuple[rm.Report, rm.Report]) -> None:
    run_id = reports[0].log(params={"text": HOSTILE[6], "nul": "\x00"}, tags={"surrogate": "\ud800"})
    for name in ("rag_rows.json", "rag_claims.json", "ragmetrics_suite.json"):
        text = mlflow.artifacts.load_text(f"runs:/{run_id}/{name}")
        json.loads(text)
        assert not _UNSTORABLE.search(text)
    assert len(mlflow.load_table("rag_rows.json", run_ids=[run_id])) == len(ROWS)
    traces = mlflow.search_traces(max_results=1000)
    assert len(traces) == len(ROWS)
    assert all(traces["assessments"].map(len))


def test_feedback_on_traces() -> None:
    for row in ROWS[:8]:
        with mlflow.start_span("ask") as span:
            span.set_inputs({"question": row["question"].replace("\x00", "").encode("utf-8", "replace").decode()})
            span.set_outputs("An answer.")
    mlflow.flush_trace_async_logging()
    traces = mlflow.search_traces(max_results=20)
    report = rm.Suite(["coherence", "content_safety", "answer_relevance"]).evaluate(traces)
    report.log(feedback=True)
    assert all(mlflow.search_traces(max_results=20)["assessments"].map(len))


def test_feedback_of_mlflow_genai() -> None:
    pytest.importorskip("mlflow.genai.evaluation.harness", reason="this MLflow cannot evaluate outside Databricks")
    data = [
        {"inputs": {"question": text}, "outputs": text, "expectations": {"expected_response": text}}
        for text in HOSTILE[4:14]
        if not _UNSTORABLE.search(text)  # MLflow does not accept these in its own data
    ]
    result = mlflow.genai.evaluate(data=data, scorers=rm.scorers(rm.Suite(["rouge", "coherence", "correctness"])))
    assert result.metrics["rag_correctness/mean"] >= 0
    assert len(result.result_df) == len(data)


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "rows.jsonl", "-m", "rouge", "-m", "coherence", "-m", "faithfulness", "--no-log", "--worst", "40"),
        ("evaluate", "rows.jsonl", "-m", "\x1b[31mno such\u202e metric", "--no-log"),
        ("evaluate", "\x1b]0;title\x07.jsonl", "--no-log"),
        ("evaluate", "rows.jsonl", "--columns", "question=\x1b[2J", "--no-log"),
        ("explain", "\x1b[2J\u202e"),
        ("compare", "\x1b[2Ja.csv", "b.csv"),
    ],
    ids=lambda words: " ".join(words[:2]).encode("ascii", "replace").decode(),
)
def test_the_terminal(words: tuple[str, ...]) -> None:
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    result = CliRunner().invoke(main, list(words))
    assert isinstance(result.exception, SystemExit) or result.exit_code == 0, result.exception
    assert not _FORBIDDEN.search(result.output), ascii(result.output)
