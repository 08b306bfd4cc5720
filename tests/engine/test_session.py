from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims, Embed, Embedding, Question
from mlflow_ragmetrics.engine import engine
from mlflow_ragmetrics.engine.engine import Embedder, JudgeSession, answer_call
from mlflow_ragmetrics.engine.program import Expenses, charged_to
from mlflow_ragmetrics.errors import JudgeError


class Judge(rm.Judge):
    """Returns its answer, or raises it if it is an error."""

    name = "judge"

    def __init__(self, outcomes: Any, fingerprint: str | None = None) -> None:
        self.outcomes = outcomes
        self.asked: list[Question] = []
        if fingerprint is not None:
            self.fingerprint = fingerprint

    def answer(self, questions: Sequence[Question]) -> Any:
        self.asked += questions
        if isinstance(self.outcomes, Exception):
            raise self.outcomes
        return self.outcomes


class Shelf(dict[Any, Any]):
    """A store in memory."""

    def get(self, fingerprint: str, question: Question) -> Any:  # type: ignore[override]
        return super().get((fingerprint, question))

    def put(self, fingerprint: str, question: Question, answer: Any) -> None:
        self[fingerprint, question] = answer


A, B = Claims("A."), Claims("B.")


def test_whatever_a_judge_raises_becomes_the_outcome_of_each_question() -> None:
    outcomes = answer_call(Judge(ValueError("Bearer abcdef0123456789 broke")), (A, B))
    assert [str(outcome) for outcome in outcomes] == ["judge: ValueError: Bearer [redacted] broke"] * 2
    known = JudgeError("mine")
    assert answer_call(Judge(known), (A,)) == [known]


def test_too_few_answers_are_none() -> None:
    first, second = answer_call(Judge([("A.",)]), (A, B))
    assert isinstance(first, JudgeError)
    assert "1 answers to 2 questions" in str(second)


def test_answers_are_stored_as_they_come_and_failures_never() -> None:
    shelf = Shelf()
    JudgeSession(Judge([("A.",), JudgeError("no")], "id"), shelf).ask((A, B))
    assert dict(shelf) == {("id", A): ("A.",)}
    with charged_to(Expenses()) as expenses:
        session = JudgeSession(Judge([], "id"), shelf)
    assert session.known(A) == (("A.",),)
    assert expenses.usage(0.0) == {"cached": 1, "wall_seconds": 0.0}
    assert session.known(B) is None
    assert JudgeSession(Judge([], "other"), shelf).known(A) is None


def test_a_judge_without_an_identity_is_not_stored() -> None:
    shelf = Shelf()
    JudgeSession(Judge([("A.",)]), shelf).ask((A,))
    assert not shelf


def test_after_a_fatal_failure_nothing_is_asked_any_more() -> None:
    fatal = JudgeError("key refused", fatal=True)
    judge = Judge([fatal])
    session = JudgeSession(judge)
    assert session.ask((A,)) == [fatal]
    assert session.ask((B,)) == [fatal]
    assert session.known(B) == (fatal,)
    assert judge.asked == [A]


def test_one_embedding_model_fails_and_the_other_answers() -> None:
    class Model(Embedding):
        def __init__(self, name: str, fails: bool = False) -> None:
            self.name = name
            self.fails = fails

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            if self.fails:
                raise OSError("gone")
            return [[float(len(text))] for text in texts]

    embedder = Embedder([Model("good"), Model("bad", fails=True)])
    both, one = embedder.answer([Embed(("a", "bb")), Embed(("ccc",), models=("good",))])
    assert both["good"] == ([1.0], [2.0])
    assert isinstance(both["bad"], JudgeError)
    assert one == {"good": ([3.0],)}


def test_only_the_latest_answers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_REMEMBERED", 1)
    judge = Judge([("A.",), ("B.",)])
    session = JudgeSession(judge)
    for question, outcome in zip((A, B), session.ask((A, B)), strict=True):
        session.settle(question, outcome)
    assert (session.known(A), session.known(B)) == (None, (("B.",),))


class Picky(rm.Judge):
    """Answers ``Claims``; raises on a question about "bad", alone or among others."""

    name, local = "picky", True

    def __init__(self, error: Exception, fewer: int = 0) -> None:
        self.error, self.fewer, self.calls_made = error, fewer, list[int]()

    def answer(self, questions: Sequence[Any]) -> Sequence[Any]:
        self.calls_made.append(len(questions))
        if any(question.text == "bad" for question in questions):
            raise self.error
        return [(question.text,) for question in questions][self.fewer :]


@pytest.mark.parametrize("error", [JudgeError("picky: no"), ValueError("no")])
def test_a_local_judge_that_raises_on_a_batch_is_asked_each_question_alone(error: Exception) -> None:
    questions = [Claims(text) for text in ("one", "bad", "two")]
    judge = Picky(error)
    first, failed, last = answer_call(judge, questions)
    assert (first, last, judge.calls_made) == (("one",), ("two",), [3, 1, 1, 1])
    assert isinstance(failed, JudgeError)
    assert str(failed) == ("picky: no" if isinstance(error, JudgeError) else "picky: ValueError: no")
    judge.local = False  # type: ignore[misc]
    assert [type(each) for each in answer_call(judge, questions)] == [JudgeError] * 3
    assert judge.calls_made[4:] == [3]
    two = Picky(error)
    assert answer_call(two, questions[:2])[0] == ("one",)
    assert two.calls_made == [2, 1, 1]


def test_too_few_answers_fail_the_whole_call() -> None:
    found = answer_call(Picky(ValueError(), fewer=1), [Claims("one"), Claims("two")])
    assert [str(each) for each in found] == ["picky returned 1 answers to 2 questions"] * 2
