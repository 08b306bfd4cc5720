"""ROUGE equals the ``rouge_score`` package, and follows its own rules where that package has none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.metrics.rouge import rouge

TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
MEASURES = ("precision", "recall", "f1")
WORDS = [
    "Running", "runners", "ran", "happily", "skies", "dying", "generally", "flies", "relational", "Él", "Straße",
    "naïve", "東京", "Ünïcode", "3.5", "it's",
]  # fmt: skip


class Whitespace:
    """Our default tokenizer, for the other implementation."""

    def tokenize(self, text: str) -> list[str]:
        return text.split()


def texts(alphabet: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pieces = st.tuples(alphabet, st.sampled_from([" ", " ", " ", "\n", "\n\n", "\t"])).map("".join)
    return st.lists(pieces, max_size=24).map("".join)


TIES = texts(st.sampled_from("abc"))
# As a whole text, some short words stand for a missing value.
MIXED = texts(st.one_of(st.sampled_from(WORDS), st.text(max_size=4))).filter(
    lambda text: text.strip().lower() not in ("nan", "none", "null", "n/a", "<na>", "nat")
)
NATURAL = texts(st.sampled_from(WORDS))


def assert_equal(scorer: RougeScorer, answer: str, reference: str, **options: object) -> None:
    expected = scorer.score(reference, answer)
    for kind in TYPES:
        details = rm.score("rouge", {"answer": answer, "reference": reference}, rouge_type=kind, **options).details
        found = tuple(details[measure] for measure in MEASURES)
        assert found == pytest.approx(tuple(expected[kind]), abs=1e-9, rel=0), kind


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(TIES, TIES)
def test_whitespace_tokens_with_many_ties(answer: str, reference: str) -> None:
    assert_equal(RougeScorer(TYPES, tokenizer=Whitespace()), answer, reference)


@settings(max_examples=50, deadline=None)
@given(MIXED, MIXED)
def test_lower_case_alphanumerics(answer: str, reference: str) -> None:
    assert_equal(RougeScorer(TYPES), answer, reference, tokenizer="rouge_score")


@settings(max_examples=50, deadline=None)
@given(NATURAL, NATURAL)
def test_stemmed_tokens(answer: str, reference: str) -> None:
    assert_equal(RougeScorer(TYPES, use_stemmer=True), answer, reference, stemmer=True)


@settings(max_examples=50, deadline=None)
@given(MIXED, MIXED, st.sampled_from(TYPES))
def test_range_and_symmetry(one: str, other: str, kind: str) -> None:
    there = rm.score("rouge", {"answer": one, "reference": other}, rouge_type=kind).details
    back = rm.score("rouge", {"answer": other, "reference": one}, rouge_type=kind).details
    assert all(0.0 <= there[measure] <= 1.0 for measure in MEASURES)
    if kind != "rougeLsum":
        assert there["precision"] == pytest.approx(back["recall"])


@pytest.mark.parametrize(("kind", "units"), [("rouge1", 1), ("rouge2", 0), ("rougeL", 1), ("rougeLsum", 1)])
def test_a_text_has_no_fewer_units_than_none(kind: str, units: int) -> None:
    for answer, reference, expected in (("", "cat", (0, units)), ("cat", "the cat", (units, units + 1))):
        details = rm.score("rouge", {"answer": answer, "reference": reference}, rouge_type=kind).details
        assert (details["answer_units"], details["reference_units"]) == expected


@given(st.permutations(["the", "cat", "sat", "on", "the", "mat"]))
def test_order_of_words_is_no_matter_to_unigrams(words: list[str]) -> None:
    record = {"answer": " ".join(words), "reference": "the cat sat on the mat"}
    assert rm.score("rouge", record).value == 1.0


def test_ngrams_are_clipped() -> None:
    record = {"answer": "the the the the", "reference": "the cat"}
    assert rm.score("rouge", record, measure="precision").value == 0.25
    assert rm.score("rouge", record, measure="recall").value == 0.5


def test_composed_and_decomposed_characters_are_equal_by_whitespace_only() -> None:
    record = {"answer": "caf\u00e9", "reference": "cafe\u0301"}
    assert rm.score("rouge", record).value == 1.0
    assert rm.score("rouge", record, tokenizer="rouge_score").value == 0.0


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({}, "rouge1_f1"),
        ({"rouge_type": "ROUGE_L_SUM", "measure": "fmeasure"}, "rougeLsum_f1"),
        ({"rouge_type": "Rouge-L", "measure": "RECALL"}, "rougeL_recall"),
        ({"rouge_type": "rouge_2", "measure": "Precision"}, "rouge2_precision"),
    ],
)
def test_spellings_and_keys(options: dict[str, str], key: str) -> None:
    assert rouge(**options).key == key
    assert rm.score(key, {"answer": "a b", "reference": "a b"}).value == 1.0


@pytest.mark.parametrize(
    ("answer", "reference", "tokenizer", "value", "unfit"),
    [
        ("埃菲尔铁塔在巴黎市", "埃菲尔铁塔在巴黎", "whitespace", 0.0, True),
        ("埃菲尔铁塔在巴黎市", "埃菲尔铁塔在巴黎", "characters", 16 / 17, False),
        ("หอคอยสูงมาก", "หอคอยสูง", "whitespace", 0.0, True),
        ("東京タワー 333 m", "東京タワー 333 m", "characters", 1.0, False),
        ("बिजली की मीनार", "बिजली की मीनार", "rouge_score", 0.0, True),
        ("बिजली की मीनार", "बिजली की मीनार", "whitespace", 1.0, False),
        ("塔高330米", "他出生于330年", "rouge_score", 1.0, True),
        ("Le château d'été", "Le château d'été", "rouge_score", 1.0, False),
        ("the tower", "башня", "rouge_score", 0.0, True),
        ("the tower in 東京", "the tower in 東京", "whitespace", 1.0, False),
    ],
)
def test_texts_that_a_tokenizer_cannot_read(
    answer: str, reference: str, tokenizer: str, value: float, unfit: bool
) -> None:
    rows = [{"answer": answer, "reference": reference}]
    report = rm.evaluate(rows, [rouge(tokenizer=tokenizer)], progress=False)
    assert report.metrics["rouge1_f1/mean"] == pytest.approx(value)
    assert report.metrics.get("rouge1_f1/n_tokenizer_unfit", 0) == unfit
    assert any("tokenizer='characters'" in note for note in report.banner) is unfit


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"rouge_type": "rouge3"}, "rouge_type"),
        ({"measure": "accuracy"}, "measure"),
        ({"tokenizer": "spacy"}, "tokenizer"),
        ({"tokenizer": "whitespace", "stemmer": True}, "stemmer"),
        ({"tokenizer": "characters", "stemmer": True}, "stemmer"),
        ({"stemmer": "yes"}, "stemmer"),
        ({"n": 2}, "n"),
    ],
)
def test_options_that_are_refused(options: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        rouge(**options)
    assert caught.value.param == param
    assert "rouge" in str(caught.value)


def test_details_hold_the_counts() -> None:
    score = rm.score("rouge", {"answer": "a b c", "reference": "a b"})
    assert score.details == {
        "matched": 2,
        "answer_units": 3,
        "reference_units": 2,
        "precision": 2 / 3,
        "recall": 1.0,
        "f1": 0.8,
    }
    assert score.reason == "rouge1 F1 0.800: 2 units matched of 3 in the answer and 2 in the reference."
