from __future__ import annotations

import math

import pytest

from mlflow_ragmetrics.core.score import (
    Chunk,
    Evidence,
    Item,
    Sample,
    Score,
    passes,
    score_of,
    verdict_name,
)
from mlflow_ragmetrics.errors import InvalidFieldError


@pytest.mark.parametrize(
    ("value", "threshold", "reached"),
    [
        (0.7, 0.7, True),
        (1 - 0.1 - 0.2, 0.7, True),
        (1 - 0.9, 0.1, True),
        (0.7 - 1e-6, 0.7, False),
        (0.6999, 0.7, False),
    ],
)
def test_a_threshold_is_reached_but_for_the_last_bits(value: float, threshold: float, reached: bool) -> None:
    assert passes(value, threshold) is reached


def test_a_verdict_of_several_metrics_speaks_of_passages_where_one_of_them_does() -> None:
    assert verdict_name("NEUTRAL", "answer") == verdict_name("NEUTRAL", "reference") == "not supported"
    assert verdict_name("NEUTRAL") == "not in the passages"
    assert verdict_name("CONTRADICTED", "answer") == "contradicted"


@pytest.mark.parametrize(("value", "reached"), [(0.1 + 0.2, True), (0.3 + 1e-6, False), (0.2, True), (0.4, False)])
def test_where_lower_is_better_a_threshold_is_reached_from_above(value: float, reached: bool) -> None:
    assert passes(value, 0.3, higher_is_better=False) is reached
    assert passes(-value, -0.3) is reached


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("no_model_call", "no_model_call"),
        ("no_call_matches", "no_call_matches"),
        ("else", None),
        (1, None),
        (None, None),
    ],
)
def test_contexts_are_assumed_for_a_known_cause(given: object, expected: str | None) -> None:
    assert Sample(metadata={"contexts_assumed": given}).contexts_assumed == expected
    assert Sample().contexts_assumed is None


@pytest.mark.parametrize(("given", "named"), [([], "a list"), ((), "a tuple"), (object(), "an object"), ("x", "a str")])
def test_what_is_no_number_is_named_with_its_article(given: object, named: str) -> None:
    with pytest.raises(InvalidFieldError, match=f"must be a number, but is {named}$"):
        score_of(given)


BY_TWO = {"a": 0.5, "b": 0.5}
DOUBTFUL = (("reply_at_odds", "Odd."), ("unknown", "Other."))


@pytest.mark.parametrize(
    ("score", "status", "measured", "cause", "marks"),
    [
        (Score(value=0.5), "ok", True, "", ()),
        (Score(value=0.0), "ok", True, "", ()),
        (Score(), "skipped", False, "no reason given", ("n_skipped",)),
        (Score(reason="no reference"), "skipped", False, "no reference", ("n_skipped",)),
        (Score(error="no reply", reason="x"), "error", False, "no reply", ("n_error",)),
        (Score(value=math.nan), "skipped", False, "no reason given", ("n_skipped",)),
        (Score(value=1.1e30), "skipped", False, "no reason given", ("n_skipped",)),
        (Score(value=-1e30), "ok", True, "", ()),
        (
            Score(value=1.0, details={"no_context": True, "unmeasured": "no contexts"}),
            "ok", False, "no contexts (by rule 1)", ("n_no_context", "n_unmeasured"),
        ),
        (Score(value=0.5, warnings=DOUBTFUL), "ok", True, "", ("n_at_odds",)),
        (Score(value=0.5, details={"judges_asked": 3}, model_scores=BY_TWO), "ok", True, "", ("n_fewer_judges",)),
        (Score(value=0.5, details={"judges_asked": 2}, model_scores=BY_TWO), "ok", True, "", ()),
        (Score(error="late", details={"judges_asked": 1}), "error", False, "late", ("n_error", "n_fewer_judges")),
    ],
)  # fmt: skip
def test_a_score_says_whether_it_was_measured_and_why_not(
    score: Score, status: str, measured: bool, cause: str, marks: tuple[str, ...]
) -> None:
    assert (score.status, score.measured, score.cause, score.marks) == (status, measured, cause, marks)
    assert score.scored is (status == "ok")
    assert score.measurement == (score.value if measured else None)


def test_a_score_passes_by_its_own_direction_and_has_its_quality() -> None:
    high, low = Score(0.25, threshold=0.5), Score(0.25, threshold=0.5, higher_is_better=False)
    assert (high.passed, high.quality) == (False, 0.25)
    assert (low.passed, low.quality) == (True, 0.75)
    assert (Score(0.25).passed, Score(0.25, higher_is_better=None).quality) == (None, None)
    assert (Score(threshold=0.5).passed, Score().quality) == (None, None)
    assert Score(0.25, threshold=0.5, passed=True).passed is True


def test_the_ids_of_passages_are_theirs_or_else_those_of_the_documents() -> None:
    chunks = (Chunk("a", "x"), Chunk("b"))
    assert Sample(contexts=chunks, retrieved_doc_ids=("1", "2")).context_ids == ("x", "")
    assert Sample(contexts=chunks[1:], retrieved_doc_ids=("1",)).context_ids == ("1",)
    assert Sample(contexts=chunks[1:], retrieved_doc_ids=("1", "2")).context_ids is None
    assert Sample(retrieved_doc_ids=("1",)).context_ids is None
    assert Sample(contexts=()).context_ids is None
    assert (Sample().texts, Sample(contexts=()).texts, Sample(contexts=chunks).texts) == (None, (), ("a", "b"))
    assert (Sample().reference, Sample(references=("r", "s")).reference) == (None, "r")


def test_samples_are_equal_wherever_their_fields_were_read_from() -> None:
    one, other = Sample(id="1", read_from={"answer": "reply"}), Sample(id="1", read_from={"answer": "text"})
    assert one == other
    assert "read_from" not in repr(one)
    assert one != Sample(id="2")


@pytest.mark.parametrize(
    ("item", "unbacked"),
    [
        (Item("claim", "It is red.", "NEUTRAL", evidence=(Evidence(), Evidence(2))), True),
        (Item("sentence", "It is red.", "CONTRADICTED", evidence=(Evidence(1),)), True),
        (Item("claim", "It is red.", "SUPPORTED", evidence=(Evidence(1),)), False),
        (Item("claim", "It is red.", "NEUTRAL", evidence=(Evidence(quote="red"),)), False),
        (Item("chunk", "It is red.", "NEUTRAL", evidence=(Evidence(1),)), False),
        (Item("claim", "It is red.", "NEUTRAL"), False),
    ],
)
def test_a_claim_is_unbacked_if_passages_were_looked_at_and_do_not_support_it(item: Item, unbacked: bool) -> None:
    assert item.unbacked_by_chunks is unbacked


@pytest.mark.parametrize(
    ("given", "threshold", "message"),
    [
        ("x", None, "the score of 'rouge' must be a number, but is a str"),
        (0.5, "y", "the threshold of 'rouge' must be a number, but is a str"),
    ],
)
def test_the_message_names_the_score_and_its_threshold(given: object, threshold: object, message: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        score_of(given, "rouge", threshold)
    assert (str(caught.value), caught.value.field) == (message, "scores")
    with pytest.raises(InvalidFieldError, match=r"the (score|threshold) must"):
        score_of(given, 5, threshold)  # an unnamed column of a table
    assert score_of(0.5, "rouge", "0.5").passed is True
    assert score_of(None, "rouge", 0.5).passed is None


def test_the_evidence_of_an_item_gets_the_id_of_its_passage() -> None:
    evidence = (Evidence(1, quote="a"), Evidence(2, "own"), Evidence(3), Evidence())
    score = Score(0.5, items=(Item("claim", "It is red.", "NEUTRAL", evidence=evidence), Item("claim", "Other.")))
    finished = score.changed()
    finished.finish_items("en", (Chunk("a", "x"), Chunk("b", "y"), Chunk("c")))
    assert finished.items[0].evidence == (Evidence(1, "x", "a"), Evidence(2, "own"), Evidence(3), Evidence())
    assert finished.items[1] is score.items[1]
    items = score.items
    score.finish_items("en", (Chunk("a"),))
    assert score.items == items
