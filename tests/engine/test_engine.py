from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.metric import Metric, metric
from mlflow_ragmetrics.core.question import Claims, Grade, Question, Rating, Steps, ask, together
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.engine import Engine
from mlflow_ragmetrics.engine.program import ScoringRules, Voting
from mlflow_ragmetrics.engine.threads import Slots
from mlflow_ragmetrics.errors import JudgeError


class Judge(rm.Judge):
    """Splits at full stops and grades 3; ``bad`` texts fail. Counts questions and concurrent calls."""

    def __init__(self, *, local: bool = False, latency: float = 0.0, bad: Sequence[str] = (), name: str = "j") -> None:
        self.name = name
        self.local = local
        self.latency = latency
        self.bad = bad
        self.asked: list[Question] = []
        self.fatal = False
        self.in_flight = self.most_in_flight = 0
        self.lock = threading.Lock()

    def answer(self, questions: Sequence[Question]) -> list[Any]:
        with self.lock:
            self.asked += questions
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        time.sleep(self.latency)
        with self.lock:
            self.in_flight -= 1
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question) -> Any:
        text = question.text if isinstance(question, Claims) else getattr(question, "answer", "")
        if any(bad in text for bad in self.bad):
            return JudgeError(f"cannot read {text}", fatal=self.fatal)
        return tuple(text.split(".")) if isinstance(question, Claims) else Rating(3)


@metric
def n_claims(answer: str) -> Steps[Score]:
    """The number of claims, as a share of ten."""
    return Score(len((yield from ask(Claims(answer)))) / 10)


@metric
def n_claims_again(answer: str) -> Steps[Score]:
    """Asks the same question as another metric."""
    return Score(len((yield from ask(Claims(answer)))) / 10)


@metric
def graded(answer: str) -> Steps[Score]:
    """Asks for claims, then for a grade: two questions in sequence."""
    yield from ask(Claims(answer))
    rating = yield from ask(Grade("correctness", answer))
    return Score(rating.value / 5)


def rows_of(metrics: Sequence[Metric], judge: Any, answers: Sequence[str], **options: Any) -> list[dict[str, Score]]:
    judges = judge if isinstance(judge, list) else [judge]
    engine = Engine(ScoringRules(metrics, voting=Voting(len(judges) > 1)), judges, [], **options)
    samples = [Sample(id=str(i), answer=answer) for i, answer in enumerate(answers)]
    return [row.scores for row in engine.rows(samples)]


@pytest.mark.parametrize("local", [True, False])
def test_each_question_is_asked_once_however_many_ask_it(local: bool) -> None:
    judge = Judge(local=local)
    rows = rows_of([n_claims, n_claims_again, graded], judge, ["a.b", "c", "a.b"])
    assert [row["n_claims"].value for row in rows] == [0.2, 0.1, 0.2]
    assert len(judge.asked) == len(set(judge.asked)) == 4


@given(st.lists(st.text("ab.", min_size=1, max_size=5), max_size=40), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_rows_come_in_order_and_as_without_any_concurrency(answers: list[str], concurrency: int) -> None:
    remote = rows_of([n_claims, graded], Judge(), answers, slots=Slots(concurrency))
    assert [row["n_claims"].value for row in remote] == [len(answer.split(".")) / 10 for answer in answers]


@pytest.mark.parametrize("limit", [1, 5])
def test_calls_in_flight_never_exceed_the_limit(limit: int) -> None:
    judge = Judge(latency=0.003)
    rows_of([n_claims, graded], judge, [f"text {i}" for i in range(30)], slots=Slots(limit))
    assert judge.most_in_flight == limit


def test_the_limit_holds_over_evaluations_that_share_it() -> None:
    judge, slots = Judge(latency=0.003), Slots(2)
    evaluations = [
        threading.Thread(
            target=rows_of, args=([n_claims], judge, [f"{name} {i}" for i in range(20)]), kwargs={"slots": slots}
        )
        for name in "ab"
    ]
    for each in evaluations:
        each.start()
    for each in evaluations:
        each.join()
    assert judge.most_in_flight == 2
    assert len(judge.asked) == 40


def test_a_failed_question_fails_only_the_scores_that_asked_it() -> None:
    rows = rows_of([n_claims, graded], Judge(bad=["bad"]), ["fine", "bad", "good"])
    assert [row["n_claims"].status for row in rows] == ["ok", "error", "ok"]
    assert "cannot read bad" in str(rows[1]["graded"].error)


def test_a_fatal_failure_stops_the_asking_and_the_engine_says_why() -> None:
    judge = Judge(bad=["x"])
    judge.fatal = True
    engine = Engine(ScoringRules([n_claims]), [judge], [], slots=Slots(1))
    rows = list(engine.rows([Sample(id=str(i), answer=f"x{i}") for i in range(10)]))
    assert len(judge.asked) == 1
    assert {row.scores["n_claims"].status for row in rows} == {"error"}
    assert engine.stopped is not None
    assert "cannot read" in str(engine.stopped)


def test_the_engine_is_not_stopped_while_one_judge_answers() -> None:
    dead, alive = Judge(bad=[""], name="dead"), Judge(name="alive")
    dead.fatal = True
    engine = Engine(ScoringRules([n_claims], voting=Voting(True)), [dead, alive], [])
    (row,) = engine.rows([Sample(id="1", answer="a.b")])
    assert row.scores["n_claims"].value == 0.2
    assert row.scores["n_claims"].excluded_models == ("dead",)
    assert engine.stopped is None


def test_samples_are_read_as_they_are_needed() -> None:
    taken: list[int] = []

    def endless() -> Iterator[Sample]:
        for number in range(10**9):
            taken.append(number)
            yield Sample(id=str(number), answer=f"text {number}")

    rows = Engine(ScoringRules([n_claims]), [Judge()], [], slots=Slots(2)).rows(endless())
    for _ in range(5):
        next(rows)
    rows.close()
    assert len(taken) < 2000


def test_an_interrupt_ends_cleanly_and_keeps_what_is_done() -> None:
    judge = Judge(latency=0.002)
    seen: list[Question] = []

    class Shelf:
        def get(self, fingerprint: str, question: Question) -> None:
            return None

        def put(self, fingerprint: str, question: Question, answer: Any) -> None:
            seen.append(question)

    judge.fingerprint = "j"  # type: ignore[attr-defined]

    def interrupted() -> Iterator[Sample]:
        for number in range(500):
            yield Sample(id=str(number), answer=f"text {number}")

    rows = Engine(ScoringRules([n_claims]), [judge], [], slots=Slots(4), store=Shelf()).rows(interrupted())
    done = [next(rows) for _ in range(20)]
    with pytest.raises(KeyboardInterrupt):
        rows.throw(KeyboardInterrupt())
    time.sleep(0.05)
    asked = len(judge.asked)
    time.sleep(0.05)
    assert len(judge.asked) == asked < 100
    assert len(done) == 20
    assert len(seen) >= 20


def test_a_panels_way_of_aggregating_holds_where_the_metric_has_none() -> None:
    judges = [Judge(name="a"), Judge(name="b")]
    judges[1]._answer = lambda question: ("one",)  # type: ignore[method-assign]
    for chosen, value in ((n_claims, 0.1), (n_claims(aggregate="max"), 0.2)):
        rules = ScoringRules([chosen], voting=Voting(True, "min"))
        (row,) = Engine(rules, judges, []).rows([Sample(id="1", answer="a.b")])
        assert row.scores["n_claims"].value == value


@pytest.mark.parametrize("several", [True, False])
def test_what_reading_the_samples_raises_comes_after_the_rows_that_were_read(several: bool) -> None:
    def broken() -> Iterator[Sample]:
        for number in range(3 if several else 0):
            yield Sample(id=str(number), answer="a b", references=("a b",))
        raise OSError("the file ends here")

    (rouge,) = rm.Suite(["rouge"]).metrics
    rows = Engine(ScoringRules([rouge]), [], []).rows(broken())
    done = []
    with pytest.raises(OSError, match="the file ends here"):
        done.extend(iter(lambda: next(rows), None))
    assert [row.sample.id for row in done] == (["0", "1", "2"] if several else [])


def test_rows_behind_one_that_is_not_done_are_kept() -> None:
    gate = threading.Event()

    class FirstWaits(Judge):
        def answer(self, questions: Sequence[Question]) -> list[Any]:
            if getattr(questions[0], "text", "") == "text 0":
                gate.wait(30)
            return super().answer(questions)

    def samples() -> Iterator[Sample]:
        for number in range(400):
            yield Sample(id=str(number), answer=f"text {number}")
        raise OSError("the file ends here")

    engine = Engine(ScoringRules([n_claims]), [FirstWaits()], [], slots=Slots(2))
    with pytest.raises(OSError, match="ends here"):
        list(engine.rows(samples()))
    gate.set()
    ahead = [int(row.sample.id) for row in engine.ahead]
    assert ahead
    assert ahead == sorted(ahead)
    assert 0 not in ahead


@metric
def asks_again(answer: str) -> Steps[Score]:
    """Asks for claims, then for the same claims together with a grade."""
    before = yield from ask(Claims(answer))
    rating, after = yield from together(ask(Grade("correctness", answer)), ask(Claims(answer)))
    after_again, rating_again = yield from together(ask(Claims(answer)), ask(Grade("answer_relevance", answer)))
    assert before == after == after_again
    return Score((rating.value + rating_again.value) / 10)


@pytest.mark.parametrize("local", [True, False])
def test_a_question_beside_one_that_has_its_answer_is_asked(local: bool) -> None:
    judge = Judge(local=local)
    rows = rows_of([asks_again], judge, ["a.b", "c"])
    assert [row["asks_again"].value for row in rows] == [0.6, 0.6]
    assert len(judge.asked) == 6


@metric
def asks_at_once(answer: str) -> Steps[Score]:
    """Asks for claims and two grades together."""
    grades = [ask(Grade(name, answer)) for name in ("correctness", "answer_relevance")]
    claims, *ratings = yield from together(ask(Claims(answer)), *grades)
    return Score((len(claims) + sum(rating.value for rating in ratings)) / 10)


class OneAtATime(Judge):
    """Holds back all questions of a sample but the first."""

    def calls(self, pending: Sequence[Question], in_flight: Sequence[Question]) -> list[tuple[Question, ...]]:
        return [] if in_flight else [(pending[0],)]


def test_questions_that_a_judge_holds_back_are_asked_later() -> None:
    judge = OneAtATime()
    rows = rows_of([asks_at_once, graded], judge, ["a.b", "c"])
    assert [[score.value for score in row.values()] for row in rows] == [[0.8, 0.6], [0.7, 0.6]]
    assert len(judge.asked) == len(set(judge.asked)) == 6
