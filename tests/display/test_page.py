"""The HTML report as a file: self-contained, of limited size; text from the data never becomes markup."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.display import page as report_page
from tests.display.pages import carried

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&lt;\u2028\ud800\x00"
ROWS = [
    {
        "id": f"r{n}",
        "question": f"Q{n}?",
        "answer": f"It is {n} metres high.",
        "contexts": ["It is in Paris."] * (n % 3),
    }
    for n in range(12)
]


@pytest.fixture(scope="module")
def page() -> str:
    judge = rm.ScriptedJudge(facts=[{"text": HOSTILE, "ok": False}])
    record = {"id": HOSTILE, "question": HOSTILE, "answer": HOSTILE, "contexts": [HOSTILE], HOSTILE: HOSTILE}
    return rm.Suite(["faithfulness", "coherence"], judge=judge).evaluate([record]).to_html(title=HOSTILE)


def test_hostile_text_stays_data(page: str) -> None:
    assert "<script>alert" not in page
    assert "<img" not in page
    assert page.count("</script>") == 3  # a block of rows, the data, and the page's own script
    page.encode("utf-8")
    data = carried(page)
    shown = HOSTILE.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    answer, _, _, contexts, scores, _, metadata = data["rows"][0]
    assert answer == contexts[0][1] == shown
    assert scores[0][4][0][1] == shown.strip()
    assert metadata == [[shown, shown]]
    assert list(data["metadata"]) == [shown]


def test_no_network(page: str) -> None:
    markup = re.sub(r'<script type="text/plain"[^<]*</script>', "", page)
    assert re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", markup) == []
    assert "default-src 'none'" in markup
    assert "url(" not in markup


def test_carries_scores_and_counts(page: str) -> None:
    data = carried(page)
    assert data["keys"] == ["faithfulness", "coherence"]
    assert data["values"]["faithfulness"] == [0.0]
    assert data["metrics"]["faithfulness/n_scored"] == 1


def test_nan_is_refused_rather_than_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        report_page._JSON.encode({"value": float("nan")})


def test_rows_come_worst_first_each_with_its_own_texts() -> None:
    report = rm.Suite(["faithfulness", "answer_relevance"], judge="lexical").evaluate(ROWS)
    data = carried(report.to_html())
    ranked = [row.sample.id for row in report.worst_rows(len(report))]
    assert data["ids"][: len(ranked)] == ranked
    answers = {row["id"]: row["answer"] for row in ROWS}
    assert [row[0] for row in data["rows"]] == [answers[each] for each in data["ids"]]


def test_a_text_is_written_once_also_one_that_looks_like_a_reference() -> None:
    rows = [
        {"id": f"r{n}", "answer": "~1", "question": "~~", "contexts": ["The same passage, " * 50]} for n in range(9)
    ]
    page = rm.Suite(["faithfulness"], judge="lexical").evaluate(rows).to_html()
    data = carried(page)
    assert {row[0] for row in data["rows"]} == {"~1"}
    assert data["questions"] == ["~~"] * 9
    assert {row[3][0][1] for row in data["rows"]} == {rows[0]["contexts"][0]}


def test_the_same_items_of_two_metrics_are_written_once() -> None:
    data = carried(rm.Suite(["faithfulness", "fact_recall"], judge="lexical").evaluate(ROWS[2:3]).to_html())
    first, second = data["rows"][0][4]
    assert (first[0], second[0], second[4]) == ("faithfulness", "fact_recall", 0)
    assert first[4]


def test_a_page_stays_within_its_size_and_the_worst_rows_keep_their_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = rm.Suite(["faithfulness"], judge="lexical").evaluate(ROWS)
    monkeypatch.setattr(report_page, "_BLOCK", 1)
    sizes = [len(each) for each in re.findall(r'class="rows">([^<]*)</script>', report.to_html())]
    assert len(sizes) == len(ROWS)
    monkeypatch.setattr(report_page, "MOST_BYTES", sum(sizes[:5]))
    data = carried(report.to_html())
    assert data["detailed"] == len(data["rows"]) == 5
    assert len(data["ids"]) == len(ROWS)


def test_a_very_long_text_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_page, "_LONGEST", 10)
    (row,) = carried(rm.Suite(["coherence"], judge="lexical").evaluate(ROWS[:1]).to_html())["rows"]
    assert row[0] == "It is 0 me… (the first 10 of 20 characters)"


def test_metadata_that_cannot_be_filtered_by_is_shown_only(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"topic": "a", "long": "x" * 200, "blank": ""}
    rows = [{**row, **values, "n": place, "gone": None} for place, row in enumerate(ROWS)]
    monkeypatch.setattr(report_page, "_MOST_VALUES", 11)
    data = carried(rm.Suite(["coherence"], judge="lexical").evaluate(rows).to_html())
    assert data["metadata"] == {name: {"values": [values[name]], "rows": [0] * 12} for name in ("topic", "blank")}
    assert [name for name, _ in data["rows"][0][6]] == ["topic", "long", "blank", "n", "gone"]


def test_the_page_of_a_run_names_it_and_links_to_it_without_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    from mlflow_ragmetrics.tracking.run import run_link

    report = rm.Suite(["coherence"], judge="lexical").evaluate(ROWS[:2])
    run_id = report.log(run_name="my run", traces=False)
    page = mlflow.artifacts.load_text(f"runs:/{run_id}/ragmetrics_report.html")
    assert carried(page)["run"] == {"name": "my run", "id": run_id}
    info = mlflow.get_run(run_id).info
    monkeypatch.setattr(mlflow, "get_tracking_uri", lambda: "https://me:secret@example.org/mlflow/")
    assert run_link(info)["url"] == f"https://example.org/mlflow/#/experiments/{info.experiment_id}/runs/{run_id}"


def test_verdicts_have_the_words_of_the_language() -> None:
    suite = rm.Suite(["faithfulness"], judge="lexical")
    names = {
        each: carried(suite.replace(language=each).evaluate(ROWS[:1]).to_html())["verdicts"] for each in ("en", "ru")
    }
    assert names["en"]["NEUTRAL"] == "not in the passages"
    assert names["ru"]["NEUTRAL"] == "нет в отрывках"


def test_writing_to_a_file_gives_the_same_page(tmp_path: Path) -> None:
    report = rm.Suite(["coherence"], judge="lexical").evaluate(ROWS)
    report_page.write_page(report, tmp_path / "page.html")
    assert report.to_html(tmp_path / "whole.html") == str(tmp_path / "whole.html")
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("page.html", "whole.html")]
    assert pages == [report.to_html()] * 2
    assert json.dumps(carried(report.to_html())["ids"])
