"""Several accepted answers: the best one counts and is named."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Grade, Outcome, Question, Rating
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.errors import JudgeError, MissingFieldError

RECORD = {"answer": "the red house", "reference": ["a blue boat", "the red house", "the house"]}


def test_the_best_counts_and_is_named() -> None:
    score = rm.score("rouge", RECORD)
    assert (score.value, score.details["matched_reference"]) == (1.0, "the red house")
    assert "the red house" in score.reason
    russian = rm.score("rouge", RECORD, language="ru")
    assert "допустимым ответом" in russian.reason


def test_equal_ones_are_not_told_apart() -> None:
    score = rm.score("rouge", {**RECORD, "reference": ["x", "y"]})
    assert (score.value, "matched_reference" in score.details) == (0.0, False)


def test_metrics_without_reference_see_one_program() -> None:
    assert "matched_reference" not in rm.score("coherence", RECORD).details


class PickyJudge:
    """Grades agreement with each reference, and fails on some of them."""

    name = "picky"
    local = True

    def __init__(self, *fails_on: str) -> None:
        self.fails_on = fails_on
        self.rounds = 0

    def answer(self, questions: list[Question]) -> list[Outcome]:
        self.rounds += 1
        return [self._grade(question) for question in questions if isinstance(question, Grade)]

    def _grade(self, question: Grade) -> Outcome:
        if question.reference in self.fails_on:
            return JudgeError(f"no reply on {question.reference}")
        return Rating({"the red house": 5, "the house": 3}.get(str(question.reference), 1))


def test_references_are_judged_side_by_side_and_a_failed_one_has_no_say() -> None:
    judge = PickyJudge("a blue boat")
    score = rm.score("correctness", RECORD, judge=judge)
    assert (score.value, judge.rounds) == (1.0, 1)
    assert ("reference_failed", "1 accepted answer could not be judged.") in score.warnings


def test_if_all_fail_the_error_is_the_first() -> None:
    with pytest.raises(JudgeError, match="no reply on x"):
        rm.score("correctness", {**RECORD, "reference": ["x", "y"]}, judge=PickyJudge("x", "y"))


def test_what_a_metric_says_of_missing_fields_comes_before_what_the_suite_says() -> None:
    (row,) = rm.Suite([rm.rouge(on_missing="skip")]).score_samples([Sample(answer="a")])
    (score,) = row.scores.values()
    assert score.status == "skipped"
    with pytest.raises(MissingFieldError):
        list(rm.Suite([rm.rouge(on_missing="raise")]).score_samples([Sample(answer="a")]))


def test_a_metric_is_judged_by_those_that_it_chose() -> None:
    judges = [rm.ScriptedJudge(facts=[{"text": "one", "ok": ok}]) for ok in (True, False)]
    judges[0].name, judges[1].name = "a", "b"
    record = {"answer": "One.", "question": "?", "contexts": ["One."]}
    suite = rm.Suite([rm.faithfulness(models=["b"])], judge=judges)
    assert suite.evaluate([record], progress=False).rows[0].scores["faithfulness"].value == 0.0


def test_a_row_shows_its_scores_in_a_line_and_in_a_notebook() -> None:
    suite = rm.Suite(["rouge", rm.composite("overall", {"faithfulness": 1}), "faithfulness"])
    sample = {"id": "a", "question": "Where?", "answer": "It is <b> in Paris.", "contexts": ["It is in Paris."]}
    row, other = suite.evaluate([sample, {"id": "b", "answer": "r", "reference": "r"}]).rows
    faithfulness = row.scores["faithfulness"].value
    assert repr(row).startswith("<Row 'a': rouge1_f1 skipped, ")
    assert f"faithfulness {faithfulness:.3f}" in repr(row)
    shown = row._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b> in Paris" not in shown
    assert shown.index("overall") < shown.index("rouge1_f1")  # composites first
    assert "faithfulness skipped" in repr(other)
    assert "1.000" in other._repr_html_()


@pytest.mark.parametrize(("better", "best"), [(True, "three"), (None, "three"), (False, "one")])
def test_the_lowest_counts_where_lower_is_better(better: bool | None, best: str) -> None:
    @rm.metric(higher_is_better=better)
    def length(answer: str, reference: str) -> float:
        """The length of the reference, over ten."""
        return len(reference) / 10

    score = rm.score(length, {"answer": "a", "reference": ["four", "one", "three", "one"]})
    assert (score.value, score.details["matched_reference"]) == (len(best) / 10, best)


def test_the_first_of_several_best_is_named() -> None:
    score = rm.score("rouge", {"answer": "a b", "reference": ["x", "b a", "a b"]})
    assert score.details["matched_reference"] == "b a"


@rm.metric
def leaks(answer: str) -> float:
    """Fails with what it was given."""
    raise ValueError(f"password: {answer}")


def test_what_a_metric_of_others_raises_is_kept_without_secrets() -> None:
    (row,) = rm.Suite([leaks]).score_samples([Sample(answer="hunter2")])
    score = row.scores["leaks"]
    assert score.status == "error"
    assert "password" in score.reason
    assert "hunter2" not in f"{score.reason} {score.error} {score.warnings}"
