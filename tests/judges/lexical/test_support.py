"""The support of claims, their verdicts, nearest sentences and unsupported words."""

from __future__ import annotations

import time

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Verify
from mlflow_ragmetrics.core.score import Evidence, Item
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge
from mlflow_ragmetrics.judges.lexical.support import doubted_words, unbacked_in, unbacked_spans
from tests.display.pages import carried

PASSAGES = (
    "The old lighthouse stands on the northern cape. A keeper lived there with his family until 1962. Storms damaged "
    "the tower in winter. Visitors climb the stairs in summer and buy honey from a local farmer.",
    "The museum in Bergen opened in 1987 and shows fishing boats.",
)


@pytest.mark.parametrize(
    ("claim", "verdict", "support"),
    [
        ("Visitors buy honey and wool in the museum shop.", "NEUTRAL", 0.6177),  # above 0.60, below 0.65
        ("The lighthouse keeper sold honey to visitors.", "NEUTRAL", 0.5),
        ("The tower was damaged by storms and fire in winter nights.", "SUPPORTED", 0.715),
        ("Fishing boats opened the museum in 1990.", "NEUTRAL", 0.4361),  # a number that is in no passage
        ("Anna lived there with her family until winter.", "SUPPORTED", 0.8389),
        ("The keeper climbed the stairs of the tower in winter.", "SUPPORTED", 0.9763),
        ("A keeper lived there with his family until 1962.", "SUPPORTED", 0.9986),
    ],
)
def test_the_support_of_a_claim_is_what_its_words_and_their_places_give(claim, verdict, support):
    ((found,),) = LexicalJudge().answer([Verify((claim,), PASSAGES)])
    assert found.support == pytest.approx(support, abs=5e-4)
    assert found.verdict == verdict


TOWER = ("Bread is baked early. Flour comes from the mill.", "The tower of Paris was built in 1889. It is of iron.")


def test_an_unsupported_claim_has_its_nearest_sentence_first() -> None:
    ((found,),) = LexicalJudge().answer([Verify(("Engineers from Lyon painted the tower of Paris green.",), TOWER)])
    assert found.verdict == "NEUTRAL"
    assert found.quotes[0] == (2, "The tower of Paris was built in 1889.")


def test_rare_words_count_more_than_frequent_ones() -> None:
    passages = ("The red house is big.", "The red house is old.", "The red house is new.", "The observatory is small.")
    ((found,),) = LexicalJudge().answer([Verify(("The red observatory sold postcards in winter.",), passages)])
    assert found.quotes[0][0] == 4


def test_a_claim_that_shares_nothing_has_no_evidence() -> None:
    ((found,),) = LexicalJudge().answer([Verify(("Whales sing.",), TOWER)])
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
    assert [claim[start:end] for start, end in unbacked_spans(claim, TOWER)] == parts


def test_doubts_lie_between_0_and_1_and_a_word_elsewhere_is_half_doubted() -> None:
    words = doubted_words("flour", ("The tower stands. The tower is of flour.",))
    assert [doubt for *_, doubt in words] == [0.0]
    doubts = {doubt for *_, doubt in doubted_words("The tower of Paris was painted by bakers of bread.", TOWER)}
    assert all(0.0 <= doubt <= 1.0 for doubt in doubts)


def test_only_what_was_judged_by_passages_is_marked() -> None:
    there = (Evidence(2, None, "The tower of Paris was built in 1889."),)
    text = "The tower of Paris was built by Belgian workers."
    assert unbacked_in(Item("claim", text, "NEUTRAL", evidence=there), TOWER) == ("by Belgian workers",)
    assert unbacked_in(Item("claim", text, "SUPPORTED", evidence=there), TOWER) == ()
    assert unbacked_in(Item("claim", text, "NEUTRAL"), TOWER) == ()
    assert unbacked_in(Item("claim", text, "NEUTRAL", evidence=(Evidence(None, None, "x"),)), TOWER) == ()
    assert unbacked_in(Item("claim", text, "NEUTRAL", evidence=there), None) == ()


def test_items_and_page_have_them() -> None:
    record = {"answer": "The tower of Paris was painted green by Belgian workers.", "contexts": list(TOWER)}
    report = rm.Suite(["faithfulness"]).evaluate([record])
    assert report.items["unbacked"].tolist() == [["was painted green by Belgian workers"]]
    assert "was painted green by Belgian workers" in str(carried(report.to_html())["rows"])


def test_a_long_claim_takes_linear_time() -> None:
    claim = " ".join(f"word{number}" for number in range(20_000))
    start = time.process_time()
    doubted_words(claim, TOWER)
    assert time.process_time() - start < 5
