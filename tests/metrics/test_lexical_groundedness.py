"""Distinct terms of the answer among those of its grounding texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.metrics.lexical import lexical_groundedness

WORDS = st.lists(
    st.sampled_from(["red", "blue", "green", "store", "opens", "vault", "the", "at", "9"]), max_size=12
).map(" ".join)


def test_terms_count_once() -> None:
    score = rm.score("lexical_groundedness", {"question": "red", "answer": "red red red blue"})
    assert (score.value, score.details) == (0.5, {"grounded": 1, "ungrounded": 1, "total": 2})
    assert [(item.kind, item.text, item.verdict) for item in score.items] == [
        ("token", "red", "FOUND"),
        ("token", "blue", "NOT_FOUND"),
    ]


@pytest.mark.parametrize("answer", ["", "  ", "?!", "a 12 of"])
def test_nothing_to_ground(answer: str) -> None:
    score = rm.score("lexical_groundedness", {"question": "red", "answer": answer})
    assert (score.value, score.details["total"]) == (1.0, 0)


def test_what_it_is_grounded_in_is_an_option() -> None:
    record = {"question": "red", "reference": "blue", "contexts": ["green", "grey"], "answer": "red blue green grey"}
    shares = {("question",): 0.25, ("question", "reference"): 0.5, ("contexts",): 0.5}
    shares |= {("question", "reference", "contexts"): 1.0}
    for grounding, share in shares.items():
        assert rm.score("lexical_groundedness", record, grounding=list(grounding)).value == share


def test_one_grounding_text_is_enough_and_none_is_missing() -> None:
    assert rm.score("lexical_groundedness", {"answer": "red", "reference": "red"}).value == 1.0
    assert rm.score("lexical_groundedness", {"answer": "red", "question": "red", "reference": " "}).value == 1.0
    for record in ({"answer": "red"}, {"answer": "", "question": " ", "reference": ""}):
        with pytest.raises(MissingFieldError) as caught:
            rm.score("lexical_groundedness", record)
        assert caught.value.field == "reference"
        assert rm.score("lexical_groundedness", record, on_missing="skip").status == "skipped"


@pytest.mark.parametrize("name", ["HallucinationEvaluator", "hallucination_evaluator"])
def test_seed_names(name: str) -> None:
    assert rm.score(name, {"answer": "red", "question": "red"}).passed is True


@given(WORDS, WORDS, st.randoms())
def test_it_is_a_share_and_order_does_not_matter(answer: str, reference: str, random: object) -> None:
    record = {"answer": answer, "reference": reference or "x"}
    value = rm.score("lexical_groundedness", record).value
    assert 0.0 <= value <= 1.0
    words = answer.split()
    random.shuffle(words)  # type: ignore[attr-defined]
    assert rm.score("lexical_groundedness", {**record, "answer": " ".join(words)}).value == value
    assert rm.score("lexical_groundedness", {**record, "reference": f"{answer} x"}).value == 1.0


def test_empty_grounding_is_refused() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        lexical_groundedness(grounding=[])
    assert caught.value.param == "grounding"
