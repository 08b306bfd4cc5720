"""The content of a report: tables, items, digests."""

from __future__ import annotations

from pathlib import Path

import mlflow
import pandas as pd
import pytest
from langchain_core.language_models import FakeListChatModel

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.results.results import results_of, suite_file
from mlflow_ragmetrics.results.tables import ITEM_COLUMNS, items_frame
from mlflow_ragmetrics.rows import digest
from tests.judges.fake_models import FakeChatModel

RECORD = {"id": "r1", "question": "q?", "answer": "A fact.", "contexts": [{"id": "doc-7", "text": "A fact."}]}


class OneClaim:
    """A judge in ten lines."""

    name = "one-claim"

    def answer(self, questions):  # type: ignore[no-untyped-def]
        from mlflow_ragmetrics.core.question import Claims, Finding

        found = Finding("supported", "said there", 0.9, ((1, "A fact."),))
        return [("A fact.",) if isinstance(question, Claims) else (found,) for question in questions]


def test_items_carry_verdict_chunk_id_and_quote() -> None:
    report = rm.Suite(["faithfulness"], judge=OneClaim()).evaluate([RECORD])
    assert list(report.items.columns) == list(ITEM_COLUMNS)
    (item,) = report.items.to_dict("records")
    assert (item["id"], item["metric"], item["kind"], item["verdict"]) == ("r1", "faithfulness", "claim", "SUPPORTED")
    assert item["support"] == 0.9
    assert item["evidence"] == [{"chunk": 1, "id": "doc-7", "quote": "A fact."}]
    assert report.table["faithfulness_support"].tolist() == [0.9]
    assert report.table["faithfulness_judge"].tolist() == ["one-claim"]


def test_items_that_nobody_has_read_make_the_table_of_those_that_are_read() -> None:
    record = {"question": "Which cat?", "answer": "The cat sat. It ate my mouse at 9.", "reference": "A cat ate it."}
    keys = ["lexical_groundedness", "lexical_factuality", "faithfulness", "context_recall"]
    ids = {"retrieved_doc_ids": ["d1", "d2"], "gold_doc_ids": ["d2", "d3"], "contexts": ["The cat sat."]}
    rows = [{**record, **ids, "id": "a"}, {"id": "b"}, {**record, **ids, "id": "c", "answer": "Nobody."}]
    report = rm.Suite(keys, language="ru").evaluate(rows)
    unread = report.items
    items = [
        (row.sample.id, key, item) for row in report.rows for key, score in row.scores.items() for item in score.items
    ]
    assert unread["id"].tolist() == [each for each, _, _ in items]
    assert unread["metric"].tolist() == [key for _, key, _ in items]
    for field in ("kind", "text", "verdict", "against", "reason"):
        assert unread[field].tolist() == [getattr(item, field) for _, _, item in items]
    assert unread["support"].isna().tolist() == [item.support is None for _, _, item in items]
    assert [len(each) for each in unread["evidence"]] == [len(item.evidence) for _, _, item in items]
    pd.testing.assert_frame_equal(items_frame(report.rows), unread)


def test_types_of_the_table() -> None:
    table = rm.Suite(["coherence", "rouge"]).evaluate([{**RECORD, "reference": "b"}, {**RECORD, "id": "2"}]).table
    assert str(table["coherence"].dtype) == "Float64"
    assert str(table["coherence_passed"].dtype) == "boolean"
    assert table["rouge1_f1"].isna().tolist() == [False, True]
    texts = table.select_dtypes("object")
    assert "reference" in texts
    assert not [cell for cell in texts.to_numpy().ravel() if isinstance(cell, float) and cell != cell]
    assert isinstance(table, pd.DataFrame)


def test_a_table_begins_with_what_is_read_first() -> None:
    row = {"topic": "x", "faithfulness": 0.2, **RECORD, "reference": "A fact."}
    table = rm.Suite.preset("white_paper").evaluate([row]).table
    names = list(table.columns)
    assert names[:6] == ["id", "question", "answer", "rag_score", "rag_score_1to5", "correctness"]
    assert names.index("faithfulness_passed" if "faithfulness_passed" in names else "faithfulness") < names.index(
        "rag_score_reason"
    )
    assert names.index("answer_relevance_reason") < names.index("reference") < names.index("topic")
    assert names.index("topic") < names.index("rag_score_status")
    assert table["faithfulness_given"].tolist() == [0.2]  # the data's own column of that name
    assert len(names) == len(set(names))


def test_the_digest_sees_list_columns() -> None:
    suite = rm.Suite(["coherence"])
    other = {**RECORD, "contexts": [{"id": "doc-7", "text": "Another fact."}]}
    first, same, third = (
        digest(row.sample for row in suite.evaluate([record]).rows) for record in (RECORD, dict(RECORD), other)
    )
    assert first == same != third


def test_worst_rows_come_first() -> None:
    rows = [{"id": str(i), "answer": "Go. " * i + "This is a whole sentence."} for i in range(5)]
    report = rm.Suite(["coherence"]).evaluate(rows)
    values = [row.scores["coherence"].value for row in report.worst_rows(3)]
    assert values == sorted(values)
    assert len(values) == 3


def test_rows_with_the_most_unsupported_claims_come_first() -> None:
    answers = {"one": "It is blue.", "two": "It is red. It is old. He sang. She danced.", "right": "It is red."}
    rows = [{"id": name, "answer": answer, "contexts": ["It is red. It is old."]} for name, answer in answers.items()]
    report = rm.Suite(["faithfulness"]).evaluate(rows)
    assert [row.sample.id for row in report.worst_rows()] == ["two", "one", "right"]
    assert [row.sample.id for row in report.worst_rows(key="faithfulness")] == ["one", "two", "right"]


def test_further_files_stay_as_they_were_given() -> None:
    files = {"note.txt": "mine"}
    records = [{**RECORD, "id": str(number), "topic": str(number % 2)} for number in range(4)]
    rm.Suite(["coherence"]).evaluate(records).log(traces=False, files=files)
    assert files == {"note.txt": "mine"}


def test_causes_that_differ_only_by_the_quoted_reply_are_one() -> None:
    judge = rm.ChatJudge(FakeListChatModel(responses=[f"Reply {n}, no JSON." for n in range(100)]), name="odd")
    rows = [{"id": str(n), "question": "Why?", "answer": "It is so."} for n in range(6)]
    report = rm.Suite(["answer_relevance"], judge=judge).evaluate(rows, progress=False)
    (cause,) = report.totals.failures.causes
    assert cause.rows == 6
    assert "; it began 'Reply " in cause.text
    assert len(report.banner) == 1


def test_the_most_frequent_causes_are_listed_and_the_others_counted() -> None:
    @rm.metric
    def fragile(answer: str, metadata: dict) -> float:  # type: ignore[type-arg]
        """Fails in another way each time, and twice in one way."""
        raise KeyError(f"lack of {metadata['what']}")

    rows = [{"id": str(n), "what": what, "answer": "It is so."} for n, what in enumerate("abcdefghh")]
    banner = rm.Suite([fragile]).evaluate(rows, progress=False).banner
    assert banner[0] == "2 of 9 rows failed (fragile): KeyError: 'lack of h'"
    assert len(banner) == 6
    assert banner[5] == "3 more kinds of error: see the reasons of the rows"


def test_what_a_report_says_of_itself_is_in_its_language() -> None:
    rows = [{"id": str(n), "answer": "It is red.", "contexts": [] if n else ["It is red."]} for n in range(3)]
    report = rm.Suite(["faithfulness"], language="ru").evaluate(rows, progress=False)
    assert report.banner == ["2 из 3 строк без контекста для проверки: faithfulness"]
    assert report._judged_by[0].startswith("Судья: lexical, без сети.")


def test_without_texts_a_report_still_says_whether_it_is_complete() -> None:
    rows = [rm.Row(rm.Sample(id="1", answer="Secret."), {"m": rm.Score(0.5, reason="Secret.")})]
    whole, stopped = rm.Report(rows), rm.Report(rows, stopped="interrupted by Secret")
    assert whole._without_texts().incomplete is None
    assert stopped._without_texts().incomplete == "see the output of the program that wrote this run"
    assert "Secret" not in repr(whole._without_texts().rows) + str(whole._without_texts().table.to_dict())


ALL_FIELDS = {"question": "How tall?", "answer": "It is 41 m.", "contexts": ["It is 41 m."], "reference": "41 m"}


@pytest.mark.parametrize(
    ("fields", "suite", "warning"),
    [
        (["question", "answer", "contexts", "reference"], "white_paper", None),
        (["question", "answer", "contexts"], "rag", "preset 'rag'"),
        (["question", "answer"], "custom", "answer_relevance, lexical_relevance"),
        (["answer"], "custom", "scored with coherence, content_safety"),
    ],
)
def test_the_default_metrics_follow_from_the_fields(fields: list[str], suite: str, warning: str | None) -> None:
    report = rm.evaluate([{name: ALL_FIELDS[name] for name in fields}], progress=False)
    assert report.description["suite"] == suite
    assert warning is None or warning in report.warnings[0]


def test_the_default_metrics_name_a_column_that_may_hold_the_reference() -> None:
    row = {"question": "Why?", "answer": "So.", "label_text": "Because it is so.", "blurbs": ["It is so, they say."]}
    (warning,) = rm.evaluate([row], progress=False).warnings
    assert "; if it is 'label_text', use columns={'reference': 'label_text'}" in warning


def test_a_report_is_logged_once(mlflow_store: str) -> None:
    report = rm.evaluate([ALL_FIELDS], ["rouge"])
    assert report.run_id is None
    assert report.log() == report.run_id == report.log()
    with mlflow.start_run() as run:
        assert report.log() == run.info.run_id


def test_short_forms_say_why_nothing_is_there() -> None:
    def broken(answer: str) -> float:
        raise ZeroDivisionError("division by zero")

    report = rm.evaluate([ALL_FIELDS], [rm.metric(broken), "faithfulness"])
    scores = report.rows[0].scores
    assert scores["broken"].details["exception"] == "ZeroDivisionError"
    assert scores["broken"].details["place"].startswith("test_report.py:")
    model = FakeChatModel(reply=lambda messages: KeyError("choices"))
    failed = rm.score("faithfulness", ALL_FIELDS, judge=rm.ChatJudge(model), on_missing="skip")
    assert (failed.status, failed.details["exception"]) == ("error", "KeyError")
    assert failed.details["place"].startswith("fake_models.py:")
    assert str(scores["faithfulness"]).splitlines()[0] == "1.000"
    assert "division by zero" in repr(rm.evaluate([ALL_FIELDS], [rm.metric(broken)]))


@pytest.mark.parametrize("beside", ["{", "[]", "null", '{"bytes": %d}', '{"bytes": %d, "suite": 1}'])
def test_a_damaged_suite_beside_a_file_of_rows_is_named(beside: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "1", "answer": "a", "rouge1_f1": 1, "rouge1_f1_status": "ok"}\n', encoding="utf-8")
    suite_file(rows).write_text(beside.replace("%d", str(rows.stat().st_size)), encoding="utf-8")
    with pytest.raises(InvalidDataError, match=r"suite of rows\.jsonl cannot be read; delete rows\.jsonl"):
        results_of(rows)
