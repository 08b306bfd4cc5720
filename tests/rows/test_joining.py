from __future__ import annotations

from pathlib import Path

import pytest

from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows import join, read_samples

RESULTS = (
    "qid\tquestion\tanswer\tdoc_ids\n"
    "1\tq1\ta1\t['doc-<urn:uuid:a>::chunk-0', 'doc-<urn:uuid:b>::chunk-1']\n"
    "2\tq2\ta2\t[]\n"
    "9\tq9\ta9\t['x']\n"
)
GOLD = (
    "id\tquestion\tanswer\tcontext\tdocument_ids\n"
    "2\tq2\tg2\t['gold text']\t['<urn:uuid:c>']\n"
    "1\tq1\tg1\t['gold text']\t[\"<urn:uuid:a>\"]\n"
    "7\tq7\tg7\t['gold text']\t['y']\n"
)


def test_two_files(tmp_path: Path) -> None:
    (tmp_path / "runs.tsv").write_text(RESULTS)
    (tmp_path / "gold.tsv").write_text(GOLD)
    joined = join(tmp_path / "runs.tsv", tmp_path / "gold.tsv")
    samples = {sample.id: sample for sample in read_samples(joined.rows)}
    assert list(samples) == ["1", "2", "9", "7"]
    first = samples["1"]
    assert (first.question, first.answer, first.reference) == ("q1", "a1", "g1")
    assert first.retrieved_doc_ids == ("doc-<urn:uuid:a>::chunk-0", "doc-<urn:uuid:b>::chunk-1")
    assert first.gold_doc_ids == ("<urn:uuid:a>",)
    assert first.contexts is None
    assert first.metadata == {"reference_contexts": "['gold text']"}
    assert (samples["9"].gold_doc_ids, samples["9"].answer) == (None, "a9")
    assert (samples["7"].retrieved_doc_ids, samples["7"].reference) == (None, "g7")
    assert joined.warning == "1 of 3 results without a reference: 9. 1 of 3 references without a result: 7."


def test_all_matched_is_no_warning() -> None:
    joined = join([{"qid": 1, "answer": "a"}], [{"question_id": "1", "reference": "r", "answer": "ignored"}])
    assert joined.rows == ({"id": "1", "answer": "a", "reference": "r"},)
    assert joined.warning is None


def test_the_references_question_and_reference_count() -> None:
    joined = join(
        [{"k": "1", "prompt": "asked", "reference": "old", "note": "n", "seed": 1}],
        [{"k": "1", "query": "known", "target": "new", "note": "m", "seed": 1, "gold_docs": ["g"]}],
        on="k",
    )
    assert joined.rows == (
        {
            "id": "1",
            "question": "known",
            "reference": "new",
            "gold_doc_ids": ["g"],
            "note": "n",
            "reference_note": "m",
            "seed": 1,
        },
    )
    assert joined.warning is not None
    assert "1 of 1 rows with another question than the reference, which is used: 1." in joined.warning


def test_only_some_unmatched_ids_are_listed() -> None:
    joined = join([{"qid": number} for number in range(10)], [{"qid": 0}])
    assert joined.warning == "9 of 10 results without a reference: 1, 2, 3, 4, 5 and 4 more."
    assert len(joined.rows) == 10


@pytest.mark.parametrize(
    ("results", "references", "words"),
    [
        ([{"qid": 1}], [{"qid": 2}], ["share no id", "results: 1", "references: 2"]),
        ([{"qid": 1}, {"qid": 1}], [{"qid": 1}], ["Row 2 of the results", "'1'"]),
        ([{"qid": 1}], [{"qid": 1}, {"qid": 3}, {"qid": "3"}], ["Row 3 of the references", "'3'"]),
        ([{"answer": "a"}], [{"qid": 1}], ["Row 1 of the results has no id", "'qid'", "'answer'"]),
        ([{"qid": None}], [{"qid": 1}], ["no id, or a blank one, in 'qid'"]),
        ([{"qid": ["x"]}], [{"qid": 1}], ["no usable id", "a list"]),
        ([{"qid": 1}], [], ["references have no rows"]),
    ],
)
def test_what_cannot_be_joined(results: list[object], references: list[object], words: list[str]) -> None:
    with pytest.raises(InvalidDataError) as caught:
        join(results, references)
    assert all(word in str(caught.value) for word in words), str(caught.value)
