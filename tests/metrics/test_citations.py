"""Citations in answers and records, judged by ALCE's definitions: precision and recall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Finding, Judge, Question, Verify
from mlflow_ragmetrics.metrics.citations import cited_statements

PASSAGES = ["The house is red.", "The house is old and large.", "Trees grow nearby."]
IDS = ["a.txt", "doc-7", "9c1e"]


class Facts(Judge):
    """Supports a claim if the passages together contain all facts that it names: "red", "old", "trees"."""

    name = "facts"

    def __init__(self) -> None:
        self.asked: list[Verify] = []

    def answer(self, questions: Sequence[Question[Any]]) -> list[Any]:
        answers = []
        for question in questions:
            assert isinstance(question, Verify)
            self.asked.append(question)
            held = " ".join(question.passages).lower()
            needed = [[fact for fact in ("red", "old", "trees") if fact in claim.lower()] for claim in question.claims]
            answers.append(tuple(Finding("SUPPORTED" if all(f in held for f in n) else "NEUTRAL") for n in needed))
        return answers


def score(metric: str, answer: str, **fields: Any) -> rm.Score:
    return rm.score(metric, {"answer": answer, "contexts": PASSAGES, **fields}, judge=Facts())


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("It is red [1].", [(1, 0)]),
        ("It is red.[1] It is old. [2]", [(1, 0), (2, 1)]),
        ("It is red and old [1][2].", [(1, 0), (2, 0)]),
        ("It is red and old [1, 2]. Trees grow [1-3].", [(1, 0), (2, 0), (1, 1), (2, 1), (3, 1)]),
        ("It is red (source 1). It is old (Sources: 2 and 3).", [(1, 0), (2, 1), (3, 1)]),
        ("It is red [Document 1], and old [doc 2].", [(1, 0), (2, 0)]),
        ("It is red 【1†source】.", [(1, 0)]),
        ("It is red.¹ It is old.²", [(1, 0), (2, 1)]),
        ("It is red[^1].\n\n[^1]: The house is red.", [(1, 0)]),
        ("It is red[^x].\n\n[^x]: see doc-7, page 3", [(2, 0)]),
        ("It is red [a.txt]. It is old (doc-7). Trees [source: 9c1e].", [(1, 0), (2, 1), (3, 2)]),
        ("It is red [1].\n\nSources:\n[1] doc-7", [(2, 0)]),
        ("[2] says that it is old.", [(2, 0)]),
        ("Дом красный (источник 1). Дом старый [документ 2].", [(1, 0), (2, 1)]),
        ("It is red [9].", [(0, 0)]),
        ("It was built [1889] (2) times for 5 m² [sic].", []),
        ("It is red [1](https://example.org/a).", [(1, 0)]),
        ("It is red [1] [1].", [(1, 0)]),
        ("", []),
    ],
)
def test_citations_are_found_in_all_styles(answer: str, cited: list[tuple[int, int]]) -> None:
    lines, citations = cited_statements(answer, PASSAGES, IDS, None)
    assert [(each.passage, each.statement) for each in citations] == cited
    assert not any("[1]" in line or "source 1" in line for line in lines)


@pytest.mark.parametrize(
    ("given", "cited"),
    [
        ([1, 3], [(1, None), (3, None)]),
        (["doc-7"], [(2, None)]),
        ([{"type": "char_location", "document_index": 1, "cited_text": "old"}], [(2, None)]),
        ([{"start": 0, "end": 10, "text": "It is red.", "document_ids": ["a.txt", "doc-7"]}], [(1, 0), (2, 0)]),
        ([{"type": "citation", "start_index": 11, "end_index": 21, "cited_text": "old and large"}], [(2, 1)]),
        ([{"source_id": 0, "quote": ""}, {"source_id": 2}], [(1, None), (3, None)]),
        ([{"source_id": 9, "quote": "The house is red"}], [(1, None)]),
        ([{"url": "https://example.org"}], [(0, None)]),
        ([{"url": "https://example.org"}, {"url": "https://example.com"}], [(0, None), (0, None)]),
        (["doc-7", "doc-7", "2", "doc-7"], [(2, None)]),
        ("no list", []),
    ],
)
def test_structured_citations_are_read(given: Any, cited: list[tuple[int, int | None]]) -> None:
    _, citations = cited_statements("It is red. It is old.", PASSAGES, IDS, {"citations": given})
    assert [(each.passage, each.statement) for each in citations] == cited


GOLDEN = [
    ("The house is red [1]. The house is old [2].", 1.0, 1.0),
    ("The house is red [2]. The house is old [2].", 0.5, 0.5),
    ("The house is red [1]. The house is old.", 1.0, 0.5),
    ("The house is red and old [1][2].", 1.0, 1.0),  # only both together support it
    ("The house is red [1][3].", 0.5, 1.0),  # [3] is needless
    ("The house is red and old [1][2][3].", 2 / 3, 1.0),  # without [3] the others still support it
    ("The house is red [7].", 0.0, 0.0),
    ("The house is red and old [1].", 0.0, 0.0),
    ("The house is red. The house is old.", None, 0.0),
    ("I don't know.", None, None),
    ("", None, None),
]


@pytest.mark.parametrize(("answer", "precision", "recall"), GOLDEN)
def test_golden_cases_by_hand(answer: str, precision: float | None, recall: float | None) -> None:
    for metric, value in (("citation_precision", precision), ("citation_recall", recall)):
        found = score(metric, answer)
        assert found.value == (None if value is None else pytest.approx(value))
        assert found.status == ("skipped" if value is None else "ok")


def test_a_citation_of_the_whole_answer_is_right_where_it_is_for_any_sentence() -> None:
    found = score("citation_precision", "The house is red. Trees grow.", citations=[1, 2, 3])
    assert (found.value, found.details["right"]) == (pytest.approx(2 / 3), 2)


def test_both_metrics_ask_the_same_questions_once() -> None:
    judge = Facts()
    record = {"answer": "The house is red [1]. It is old [2]. It is large [2].", "contexts": PASSAGES}
    rm.Suite(["citation_precision", "citation_recall"], judge=judge).evaluate([record])
    assert [(len(each.claims), each.passages) for each in judge.asked] == [(1, (PASSAGES[0],)), (2, (PASSAGES[1],))]


def test_the_offline_judge_answers() -> None:
    record = {"answer": "The house is red [1]. The house is old and large [1].", "contexts": PASSAGES}
    assert rm.score("citation_precision", record).value == 0.5
    assert rm.score("citation_recall", record, language="ru").reason.startswith("Процитированные отрывки")


def test_citations_in_content_blocks_are_kept_with_their_block() -> None:
    from langchain_core.messages import AIMessage

    blocks = [
        {"type": "text", "text": "The house is red.", "citations": [{"document_index": 0, "cited_text": "red"}]},
        {
            "type": "text",
            "text": "Trees grow.",
            "annotations": [{"type": "citation", "cited_text": "Trees grow nearby"}],
        },
        {"type": "text", "text": "The house is old."},
    ]
    for answer in ({"messages": [AIMessage(blocks)]}, AIMessage(blocks)):
        found = rm.score("citation_recall", {"output": answer, "contexts": PASSAGES}, judge=Facts())
        assert (found.value, found.details["uncited"]) == (pytest.approx(2 / 3), 1)
    cohere = AIMessage(
        "The house is red.", additional_kwargs={"citations": [{"start": 0, "end": 9, "document_ids": ["b"]}]}
    )
    contexts = [{"text": "Trees.", "id": "a"}, {"text": "The house is red.", "id": "b"}]
    assert rm.score("citation_precision", {"output": cohere, "contexts": contexts}, judge=Facts()).value == 1.0


def test_ids_are_those_of_the_passages_however_many_were_retrieved() -> None:
    passages = [{"id": "b", "text": "The house is red."}, {"text": "Trees grow."}]
    record = {"answer": "The house is red.", "citations": ["b"], "retrieved_doc_ids": ["a", "b"], "contexts": passages}
    found = rm.score("citation_precision", record)
    assert (found.value, found.items[0].evidence[0].chunk) == (1.0, 1)
    texts = {**record, "contexts": ["Trees grow.", "The house is red."]}  # the ids next to them belong to them
    assert rm.score("citation_precision", texts).items[0].evidence[0].chunk == 2
    assert rm.score("citation_precision", {**texts, "retrieved_doc_ids": ["b"]}).details["unknown"] == 1


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("It is red [120].", [120]),
        ("It is red [121].", [0]),
        ("It is red [0].", [0]),
        ("It is red [1200].", []),
        ("It is red [119-121].", [119, 120, 0]),
        ("It is red [3-2].", []),
    ],
)
def test_a_number_of_up_to_three_digits_is_a_citation(answer: str, cited: list[int]) -> None:
    passages = [f"Passage {number}." for number in range(1, 121)]
    _, citations = cited_statements(answer, passages, None, None)
    assert [each.passage for each in citations] == cited


@pytest.mark.parametrize(
    ("given", "cited"),
    [(["120"], 120), (["121"], 0), (["1200"], 0), ([{"source_id": 0}, {"source_id": 119}], 120), (["0"], 1)],
)
def test_a_structured_number_is_that_of_a_passage(given: Any, cited: int) -> None:
    passages = [f"Passage {number}." for number in range(1, 121)]
    _, citations = cited_statements("It is red.", passages, None, {"citations": given})
    assert citations[-1].passage == cited


@pytest.mark.parametrize(("quote", "cited"), [("The hous", 1), ("The hou", 0), ("It is nowhere.", 0)])
def test_a_quote_of_eight_characters_names_its_passage(quote: str, cited: int) -> None:
    entry = {"source_id": "elsewhere", "quote": quote}
    _, citations = cited_statements("It is red.", PASSAGES, None, {"citations": [entry]})
    assert [(each.passage, each.label) for each in citations] == [(cited, quote)]
    _, (named,) = cited_statements("It is red.", PASSAGES, None, {"citations": ["elsewhere"]})
    assert (named.passage, named.label) == (0, "elsewhere")


@pytest.mark.parametrize(("count", "found"), [(1999, 1999), (2000, 2000), (2001, 2000), (2010, 2000)])
def test_the_first_two_thousand_marks_of_an_answer_are_citations(count: int, found: int) -> None:
    lines, citations = cited_statements("Red [1].\n" * count, PASSAGES, None, None)
    assert len(citations) == found
    assert [citation.statement for citation in citations] == list(range(found))
    assert sum("[1]" in line for line in lines) == count - found


@pytest.mark.parametrize(("number", "passage"), [(0, None), (1, 1), (2, 3), (3, None)])
def test_a_quote_is_of_the_cited_passage_with_its_number(number: int, passage: int | None) -> None:
    class Quotes(Judge):
        name = "quotes"

        def answer(self, questions: Sequence[Question[Any]]) -> list[Any]:
            finding = Finding("SUPPORTED", "So.", 1.0, ((number, "Trees grow nearby."),))
            return [(finding,) * len(each.claims) for each in questions if isinstance(each, Verify)]

    record = {"answer": "Trees are red [1][3].", "contexts": PASSAGES}
    found = rm.score("citation_recall", record, judge=Quotes())
    assert [each.chunk for each in found.items[0].evidence if each.quote] == ([] if passage is None else [passage])
