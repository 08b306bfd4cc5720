"""Many rows read at once get the scores that each gets alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.text import columns
from mlflow_ragmetrics.text.columns import words_of

PAIRS = (("red", "blue"), ("is", "is not"), ("not a", "x"), ("da", "not a red house"), ("", "red"), ("猫", "猫 is"))
METRICS = (
    rm.lexical_groundedness,
    rm.lexical_groundedness(grounding=["contexts", "reference"]),
    rm.lexical_factuality,
    rm.lexical_relevance,
    rm.coherence,
    rm.coherence(contradictions=PAIRS),
    rm.content_safety,
    rm.content_safety(additional_blocklist=("not a", "坏话", "Straße"), per_category=True),
)
KEYS = [metric.spelling for metric in METRICS]
USUAL = ["red", "Red", "house", "blue", "is", "not", "a", "isn't", "all", "none", "before", "after", "can", "cannot"]
ENDING = ["It is red.", "Yes.", "yes!", "...", "-", '"Go!"', "e.g.this", "a.)b", "東京。Tower"]
FOUND = ["555", "123", "4567", "555-123-4567", "12", "1998", "a@b.com", "damn", "Damned", "hell-bound", "ｄａｍｎ"]
ODD = ["state-of-the-art", "a_b-", "Straße", "ﬁ", "猫", "坏话", "\u0301" * 3, "cafe\u0301", "\xa8", "не", "Париж"]
WORD = st.sampled_from([*USUAL, *ENDING, *FOUND, *ODD, "\x1c", "\x00", "\n", "\u3000"])
TEXT = st.lists(st.one_of(WORD, WORD, st.text(max_size=4)), max_size=14).map(" ".join)
SAMPLE = st.builds(
    Sample,
    answer=TEXT,
    question=st.one_of(st.none(), TEXT),
    references=st.one_of(st.none(), TEXT.map(lambda text: (text,))),
)


@pytest.mark.parametrize("metric", METRICS, ids=KEYS)
@given(samples=st.lists(SAMPLE, max_size=8))
@settings(max_examples=60, deadline=None)
def test_many_rows_are_scored_as_each_alone(metric: Metric, samples: list[Sample]) -> None:
    assert_same(metric, samples)


@pytest.mark.parametrize("metric", METRICS, ids=KEYS)
def test_rows_without_anything_special_are_scored_together(metric: Metric) -> None:
    answer = "The house stands on a hill. It was built long ago by strangers."
    samples = [_sample(answer, "Where is the house?", "The house stands there.")] * 3
    assert len(assert_same(metric, samples)) == 3


@pytest.mark.parametrize(
    "answer",
    [
        "This is one house.)garden and it goes on here.",  # a sentence ends within a word
        "Call 555 123 4567 for more of it.",
        "It stands there. Is it a house? It stands there!",
        "All of them can see it. None of them cannot.",
        "It isn't here. It is there again.",
    ],
)
def test_what_stands_in_several_words_or_within_one(answer: str) -> None:
    for metric in METRICS:
        assert_same(metric, [_sample(answer, "Which house?", "A house.")] * 2)


def test_terms_beside_all_sentences() -> None:
    samples = [_sample("The house stands. \u0301\u0301\u0301 . It is there now.", "Which house?", "A house.")] * 2
    assert len(assert_same(rm.lexical_factuality, samples)) == 2


@pytest.mark.parametrize("odd", ["\ud800 red", "red " * 2000, "", "...", "東京。Tower"])
def test_rows_that_arrays_do_not_serve_do_not_hold_up_the_others(odd: str) -> None:
    usual = _sample("The house stands there.", "Which house?", "A house.")
    for metric in METRICS:
        found = assert_same(metric, [usual, _sample(odd, odd, odd), usual])
        assert {0, 2} <= set(found), metric


def test_tables_of_few_counts_at_a_time_and_a_small_lexicon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_TABLE", 8)
    monkeypatch.setattr(columns, "_MOST_WORDS", 10)
    names = ["red", "blue", "green", "house", "stands", "Always", "on", "Hill"]
    generator = np.random.default_rng(1)
    for _ in range(6):
        texts = [" ".join(generator.choice(names, 9)) + "." for _ in range(30)]
        for metric in METRICS:
            assert_same(metric, [_sample(*texts[n : n + 3]) for n in range(27)])


def test_a_lexicon_of_many_characters_is_left_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_MOST_CHARACTERS", 1000)
    lexicons = [words_of([f"{n:01000}"])[0].lexicon for n in range(4)]
    assert lexicons[1] is not lexicons[3]


def test_the_words_of_a_text_are_those_of_split() -> None:
    texts = [" the  cat\n", "", "the\x1cdog\u2003the\xa0cat", " \t"]
    (found,) = words_of(texts)
    names = found.lexicon._words.since(0)
    pieces = [[names[word] for word in found.ids[found.texts == place]] for place in range(len(texts))]
    assert pieces == [text.split() or [""] for text in texts]
    assert found.blank.tolist() == [False, True, False, True]


def _sample(answer: str, question: str, reference: str) -> Sample:
    return Sample(answer=answer, question=question, references=(reference,))


def assert_same(metric: Metric, samples: Sequence[Sample]) -> dict[int, Any]:
    found = dict(metric.computed_together(samples))
    for place, score in found.items():
        alone = metric.computed(samples[place])
        assert isinstance(alone, rm.Score), samples[place]
        assert score == alone, samples[place]
        assert score.items == alone.items
        assert str(score.reason) == str(alone.reason)
        assert list(score.details.items()) == list(alone.details.items())
        assert type(score.value) is float
    return found


def test_texts_of_mostly_new_words_are_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_MANY", 3)
    known, new = "One new word.", "Quite other ones follow now."
    words_of([known])
    assert [words_of([each])[0].alone.tolist() for each in (f"{known} {known}", new)] == [[False], [True]]
    for metric in METRICS:
        assert_same(metric, [_sample(new, known, new)] * 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_a_thread_of_its_parent() -> None:
    held = columns._lexicons[0]
    with ThreadPoolExecutor(1) as thread:
        thread.submit(held._lock.acquire).result()
        child = os.fork()
        if not child:
            signal.alarm(20)  # ends a child that waits
            os._exit(columns.words_of(["a red house"] * 20)[0].size != 20)
        thread.submit(held._lock.release).result()
    assert os.waitpid(child, 0)[1] == 0
