"""Reports of how columns were read, and warnings about suspicious columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlflow
import pytest
from click.testing import CliRunner

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.errors import MissingFieldError

SUPPORTED = {"input": "Who did it?", "output": "Anna did it.", "passages": ["Anna did it.", "Bea slept.", "It rained."]}
READ = "Read: question ← input, answer ← output, reference: none, contexts ← passages (3 per row)"


def warned(rows: list[dict[str, Any]], metric: str, about: str) -> bool:
    return any(about in warning for warning in rm.evaluate(rows, [metric]).warnings)


def test_one_line_says_which_column_was_read_as_what(tmp_path: Path) -> None:
    report = rm.evaluate([SUPPORTED, SUPPORTED], ["faithfulness"])
    assert READ in report.notes
    assert READ in report.to_html().replace("&#x27;", "'")
    run = mlflow.get_run(report.log())
    assert READ in run.data.tags["mlflow.note.content"].replace("\\", "")
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(SUPPORTED))
    printed = CliRunner().invoke(main, ["evaluate", str(path), "-m", "faithfulness", "--no-log"]).stdout
    assert READ in " ".join(printed.split())


def test_nothing_is_said_of_columns_with_the_names_of_fields() -> None:
    assert rm.evaluate([{"answer": "Anna.", "reference": "Anna."}], ["rouge"]).notes == []


def test_an_answer_that_is_json_stays_the_answer() -> None:
    row = {"output": '{"city": "Paris"}', "answer": None, "reference": '["a", 1]'}
    sample = rm.evaluate([row], ["rouge"]).rows[0].sample
    assert (sample.answer, sample.reference) == ('{"city": "Paris"}', '["a", 1]')


@pytest.mark.parametrize(("given", "known"), [([1.0], [1]), ([" d1"], ["d1"]), (["7 "], [7.0]), ("[1.0]", "['1']")])
def test_ids_are_compared_as_people_write_them(given: Any, known: Any) -> None:
    report = rm.evaluate([{"retrieved_doc_ids": given, "gold_doc_ids": known}], ["context_recall"])
    assert (report.metrics["context_recall/mean"], report.warnings) == (1.0, ())


def test_ids_that_can_never_match_are_named() -> None:
    joined = [{"retrieved_doc_ids": "d1,d2", "gold_doc_ids": "d1"}]
    assert warned(joined, "context_recall", "one id in 'retrieved_doc_ids' that looks like several ('d1,d2')")
    other = [{"retrieved_doc_ids": ["a"], "gold_doc_ids": ["urn:a"]}] * 2
    assert warned(
        other, "context_recall", "no retrieved id equals a gold id in any of 2 rows (such as 'a' and 'urn:a')"
    )
    assert not warned([*other, {"retrieved_doc_ids": ["a"], "gold_doc_ids": ["a"]}], "context_recall", "no retrieved")
    chunks = [{"retrieved_doc_ids": ["a::chunk-1"], "gold_doc_ids": ["a"]}]
    assert not warned(chunks, "context_recall", "no retrieved id")
    assert not warned(other, "context_recall(id_pattern='a$')", "no retrieved id")


def test_passages_in_one_text_are_named() -> None:
    rows = [
        {"answer": "Anna did it.", "contexts": text} for text in ("Anna did it.\n\nBea slept.", "It rained.\nBadly.")
    ]
    assert warned(rows, "faithfulness", "each of the 2 rows with contexts has one passage of several lines")
    assert warned(rows * 51, "faithfulness", "in the first 100 rows, each of the 100 rows with contexts has one")
    listed = [{**row, "contexts": [row["contexts"]]} for row in rows]
    assert not warned(listed, "faithfulness", "one passage of")
    assert not warned([*rows, {"answer": "Bea.", "contexts": "Bea slept."}], "faithfulness", "one passage of")


@pytest.mark.parametrize(
    "passage",
    ["doc-17", "The Eiffel Tower", "kb/faq/refunds", "Terms of sale.pdf", "https://a.org/x", "Search Guide, Chapter 7"],
)
def test_passages_that_are_pointers_to_passages_are_named(passage: str) -> None:
    rows = [{"answer": "Anna did it.", "contexts": [passage, passage]}] * 2
    assert warned(rows, "faithfulness", "4 of 4 passages look like an id, a title or a path")


@pytest.mark.parametrize(
    "passage", ["Anna did it in 1925.", "The rules in section 3 apply here.", "Paris", "東京は2020年に開催した。"]
)
def test_short_passages_are_no_pointers(passage: str) -> None:
    assert not warned([{"answer": "Anna did it.", "contexts": [passage]}] * 2, "faithfulness", "title")


def test_verdicts_in_the_place_of_texts_are_named() -> None:
    targets = [{"answer": "Anna did it.", "target": target} for target in ("1", "True", "1", "Anna.")]
    assert warned(targets, "correctness", "3 of 4 values of 'reference' (column 'target') are labels ('1', 'True')")
    results = [{"result": result, "reference": "Anna."} for result in ("PASS", "FAIL")]
    assert warned(results, "correctness", "2 of 2 values of 'answer' (column 'result') are labels ('PASS', 'FAIL')")
    assert not warned([{"answer": "yes", "reference": "no"}] * 4, "correctness", "label")


def test_answers_that_are_their_references_are_named() -> None:
    equal, other = {"answer": "Anna.", "reference": "Anna."}, {"answer": "Anna.", "reference": "Bea."}
    assert warned([equal, equal, other], "correctness", "2 of 3 answers equal the reference word for word")
    assert not warned([equal, other, other], "correctness", "word for word")


def test_answers_that_may_be_the_references_are_named() -> None:
    rows = [{"question": "Who?", "answer": "Anna.", "prediction": f"It was {name}."} for name in ("Bea", "Carl")]
    way = "if the answers are in 'prediction' and the references in 'answer', use columns={'answer': 'prediction', "
    assert warned(rows, "coherence", way)
    with pytest.raises(MissingFieldError, match="--columns answer=prediction,reference=answer"):
        rm.evaluate(rows, ["rouge"])
    assert not warned([{**row, "reference": "Anna."} for row in rows], "rouge", "references in")


def test_all_missing_columns_are_named_at_once() -> None:
    with pytest.raises(MissingFieldError) as caught:
        rm.evaluate([{"answer": "Anna."}], ["faithfulness", "correctness", "context_recall"])
    assert (caught.value.field, caught.value.metric) == ("contexts", "faithfulness")
    for sentence in ("faithfulness needs the field 'contexts'", "correctness needs the field 'reference'"):
        assert sentence in str(caught.value)
    assert 'use fact_recall(target="reference")' in str(caught.value)


def test_what_was_read_does_not_change_the_digest_of_the_rows() -> None:
    named = rm.evaluate([{"answer": "Anna.", "reference": "Bea."}], ["rouge"]).rows[0].sample
    aliased = rm.evaluate([{"response": "Anna.", "target": "Bea."}], ["rouge"]).rows[0].sample
    assert named == aliased
    from mlflow_ragmetrics.rows import digest

    assert digest([named]) == digest([aliased])
