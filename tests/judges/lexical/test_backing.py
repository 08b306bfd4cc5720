"""The nearest sentences of unsupported claims, and the words that nothing backs."""

from __future__ import annotations

import time

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Verify
from mlflow_ragmetrics.core.score import Evidence, Item
from mlflow_ragmetrics.judges.lexical.judge import LexicalJudge
from mlflow_ragmetrics.judges.lexical.support import doubted_words, unbacked_in, unbacked_spans
from tests.report.pages import carried

PASSAGES = ("Bread is baked early. Flour comes from the mill.", "The tower of Paris was built in 1889. It is of iron.")


def test_an_unsupported_claim_has_its_nearest_sentence_first() -> None:
    ((found,),) = LexicalJudge().answer([Verify(("Engineers from Lyon painted the tower of Paris green.",), PASSAGES)])
    assert found.verdict == "NEUTRAL"
    assert found.quotes[0] == (2, "The tower of Paris was built in 1889.")


def test_rare_words_count_more_than_frequent_ones() -> None:
    passages = ("The red house is big.", "The red house is old.", "The red house is new.", "The observatory is small.")
    ((found,),) = LexicalJudge().answer([Verify(("The red observatory sold postcards in winter.",), passages)])
    assert found.quotes[0][0] == 4


def test_a_claim_that_shares_nothing_has_no_evidence() -> None:
    ((found,),) = LexicalJudge().answer([Verify(("Whales sing.",), PASSAGES)])
    assert (found.verdict, found.quotes) == ("NEUTRAL", ())


@pytest.mark.parametrize(
    ("claim", "parts"),
    [
        ("The tower of Paris was built in 1889.", []),
        ("The tower of Paris was built by Belgian workers.", ["by Belgian workers"]),
        ("According to the text, the tower of Paris was built by Belgian workers.", ["by Belgian workers"]),
        ("Whales sing.", ["Whales sing"]),
        ("", []),
    ],
)
def test_the_words_that_nothing_backs(claim: str, parts: list[str]) -> None:
    assert [claim[start:end] for start, end in unbacked_spans(claim, PASSAGES)] == parts


def test_doubts_lie_between_0_and_1_and_a_word_elsewhere_is_half_doubted() -> None:
    words = doubted_words("flour", ("The tower stands. The tower is of flour.",))
    assert [doubt for *_, doubt in words] == [0.0]
    doubts = {doubt for *_, doubt in doubted_words("The tower of Paris was painted by bakers of bread.", PASSAGES)}
    assert all(0.0 <= doubt <= 1.0 for doubt in doubts)


def test_only_what_was_judged_by_passages_is_marked() -> None:
    there = (Evidence(2, None, "The tower of Paris was built in 1889."),)
    text = "The tower of Paris was built by Belgian workers."
    assert unbacked_in(Item("claim", text, "NEUTRAL", evidence=there), PASSAGES) == ("by Belgian workers",)
    assert unbacked_in(Item("claim", text, "SUPPORTED", evidence=there), PASSAGES) == ()
    assert unbacked_in(Item("claim", text, "NEUTRAL"), PASSAGES) == ()
    assert unbacked_in(Item("claim", text, "NEUTRAL", evidence=(Evidence(None, None, "x"),)), PASSAGES) == ()
    assert unbacked_in(Item("claim", text, "NEUTRAL", evidence=there), None) == ()


def test_items_and_page_have_them() -> None:
    record = {"answer": "The tower of Paris was painted green by Belgian workers.", "contexts": list(PASSAGES)}
    report = rm.Suite(["faithfulness"]).evaluate([record])
    assert report.items["unbacked"].tolist() == [["was painted green by Belgian workers"]]
    assert "was painted green by Belgian workers" in str(carried(report.to_html())["rows"])


def test_a_long_claim_takes_linear_time() -> None:
    claim = " ".join(f"word{number}" for number in range(20_000))
    start = time.process_time()
    doubted_words(claim, PASSAGES)
    assert time.process_time() - start < 5
