from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.core.question import Claims, Grade, Question, RelatedChunks, Tone, Verify
from mlflow_ragmetrics.judges.chat.judge_options import Calls
from mlflow_ragmetrics.judges.chat.tasks import group_calls

A, R, CHUNKS = "The answer.", "The reference.", ("one", "two")
CLAIMS = [Claims(A), Claims(R, role="reference")]
GRADES = [Grade("correctness", A, "q", R), Grade("answer_relevance", A, "q")]
RELATED = RelatedChunks(A, CHUNKS)
ON_CHUNKS = [Verify(("a",), CHUNKS), Verify(("r",), CHUNKS, role="reference")]
ACROSS = [Verify(("a",), (R,), "reference"), Verify(("r",), (A,), "answer", role="reference")]


def test_in_full_each_question_is_asked_alone() -> None:
    calls = group_calls("full", [*CLAIMS, RELATED, *GRADES], [])
    assert calls == [(CLAIMS[0],), (CLAIMS[1],), (RELATED,), (GRADES[0],), (GRADES[1],)]
    assert group_calls("full", [*ON_CHUNKS, *ACROSS], []) == [(question,) for question in [*ON_CHUNKS, *ACROSS]]


def test_in_compact_a_row_needs_five_calls() -> None:
    first = group_calls("compact", [*CLAIMS, RELATED, *GRADES], [])
    assert first == [tuple(CLAIMS), (GRADES[0],), (GRADES[1],)]
    assert group_calls("compact", [RELATED], CLAIMS) == []
    second = group_calls("compact", [RELATED, *ON_CHUNKS, *ACROSS], GRADES)
    assert second == [(RELATED, *ON_CHUNKS), tuple(ACROSS)]


def test_in_single_claims_verdicts_and_related_chunks_share_a_call() -> None:
    claims = [Claims(A, passages=CHUNKS), Claims(R, role="reference", passages=CHUNKS)]
    first = group_calls("single", [*claims, RELATED, *GRADES], [])
    assert first == [(*claims, RELATED), (GRADES[0],), (GRADES[1],)]
    assert group_calls("single", ACROSS, GRADES) == [tuple(ACROSS)]


def test_texts_of_other_questions_share_no_message() -> None:
    asked = [Claims(A, question="q"), Claims(R, question="another")]
    assert group_calls("compact", asked, []) == [(asked[0],), (asked[1],)]


def test_nothing_waits_for_claims_that_nobody_makes() -> None:
    assert group_calls("compact", [RELATED], []) == [(RELATED,)]


def test_grades_of_other_texts_are_asked_apart() -> None:
    other = Grade("correctness", A, "another question", R)
    twice = group_calls("full", [GRADES[0], other, GRADES[1]], [])
    assert twice == [(GRADES[0],), (other,), (GRADES[1],)]
    alone = Grade("correctness", A, "q")
    assert group_calls("full", [GRADES[0], alone], []) == [(GRADES[0],), (alone,)]
    different = Grade("answer_relevance", "another answer", "q")
    assert group_calls("full", [GRADES[0], different], []) == [(GRADES[0],), (different,)]


def test_grades_by_several_references_share_a_call() -> None:
    grades = [Grade("correctness", A, "q", f"reference {number}") for number in range(10)]
    assert group_calls("full", grades, []) == [tuple(grades)]
    own = [Grade("style", A, "q", f"reference {number}", rubric="5 good, 1 bad") for number in range(2)]
    assert group_calls("full", own, []) == [(own[0],), (own[1],)]


_QUESTIONS = st.lists(st.sampled_from([*CLAIMS, *GRADES, RELATED, *ON_CHUNKS, *ACROSS, Tone(A, R)]), unique=True)


@given(_QUESTIONS, st.sampled_from(["full", "compact", "single"]))
def test_with_nothing_in_flight_no_question_is_asked_twice_and_none_waits_for_ever(
    pending: list[Question[Any]], grouping: Calls
) -> None:
    waiting = list(pending)
    asked: list[Question[Any]] = []
    while waiting:
        calls = group_calls(grouping, waiting, [])
        assert calls
        asked += [question for call in calls for question in call]
        waiting = [question for question in waiting if question not in asked]
    assert sorted(map(repr, asked)) == sorted(map(repr, pending))
