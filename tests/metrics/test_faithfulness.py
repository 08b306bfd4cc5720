"""Faithfulness: claims, evidence, and all cases of non-answers and missing context."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims, Finding, Outcome, Question, Verify
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeReplyError, MissingFieldError
from mlflow_ragmetrics.metrics.faithfulness import faithfulness

FACTS = [{"text": "It is red.", "ok": True}, {"text": "It is old.", "ok": False}]
CLEAR = {"answer": "It is red and old.", "reference": "It is red.", "contexts": ["It is red.", "It rains."]}
VAGUE = "I don't know."


class GradingJudge:
    """A judge that grades support and quotes its evidence."""

    name = "grading"
    local = True

    def answer(self, questions: list[Question]) -> list[Outcome]:
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question) -> Outcome:
        if isinstance(question, Claims):
            return ("It is red.", " ", "It is old.", "It is big.")
        assert isinstance(question, Verify)
        assert question.claims == ("It is red.", "It is old.", "It is big.")
        quotes = ((2, "red"), (9, "no such chunk"), (0, "nor this"))
        return (Finding("supported", "said so", 0.75, quotes), Finding("Perhaps", support=7.0))


def test_items_carry_verdict_support_and_evidence() -> None:
    chunks = [{"id": "a", "text": "It rains."}, {"id": "b", "text": "It is red."}]
    score = rm.score("faithfulness", {**CLEAR, "contexts": chunks}, judge=GradingJudge())
    first, second, third = score.items
    assert (first.kind, first.text, first.verdict, first.reason) == ("claim", "It is red.", "SUPPORTED", "said so")
    assert [(e.chunk, e.id, e.quote) for e in first.evidence] == [(2, "b", "red")]
    assert (second.verdict, second.support) == ("NEUTRAL", None)
    assert third.verdict == "NEUTRAL"
    assert score.value == pytest.approx(1 / 3)
    assert score.details["support"] == 0.75
    assert [code for code, _ in score.warnings] == ["verdict_missing", "verdict_unknown"]
    assert "'Perhaps'" in dict(score.warnings)["verdict_unknown"]


def test_an_answer_without_claims_has_nothing_unfaithful() -> None:
    score = rm.score("faithfulness", CLEAR, judge=rm.ScriptedJudge(facts=[]))
    assert score.value == 1.0
    assert score.details["rule"] == "no_claims"
    assert "no claims" in score.reason


@pytest.mark.parametrize("contexts", [None, [], ["", "  "], "", "   ", float("nan")])
@pytest.mark.parametrize("answer", ["It is red.", VAGUE, ""])
@pytest.mark.parametrize("on_missing", ["raise", "skip"])
def test_without_context_the_rule_comes_first(contexts: object, answer: str, on_missing: str) -> None:
    record = {"answer": answer, "contexts": contexts}
    for mode, value in {"vacuous": 1.0, "floor": 0.0, "skip": None}.items():
        silent = rm.ScriptedJudge()
        score = rm.score("faithfulness", record, judge=silent, no_context=mode, on_missing=on_missing)
        assert score.value == value
        assert score.status == ("skipped" if value is None else "ok")
        assert dict(score.warnings)["no_context"] == "No context to verify."
        assert score.details["no_context"] is True
        assert score.details["total"] == 0
        assert not silent.asked


@pytest.mark.parametrize("reference", ["It is red.", "unknown", None])
def test_clear_answers_are_judged_whatever_the_reference(reference: str | None) -> None:
    score = rm.score("faithfulness", {**CLEAR, "reference": reference}, judge=rm.ScriptedJudge(facts=FACTS))
    assert score.value == 0.5


@pytest.mark.parametrize("answer", [VAGUE, "", "…", "(No relevant information found.)", "Не знаю."])
def test_indistinct_answers(answer: str) -> None:
    silent = rm.ScriptedJudge()
    against_clear = rm.score("faithfulness", {**CLEAR, "answer": answer}, judge=silent)
    alone = rm.score("faithfulness", {"answer": answer, "contexts": ["x"]}, judge=silent)
    assert (against_clear.value, alone.value) == (0.0, 1.0)
    assert against_clear.details["answer_state"] == "indistinct"
    assert alone.details["reference_state"] == "missing"
    assert not silent.asked


@pytest.mark.parametrize(("tone", "word"), [(1.0, "cautious"), ("0.5", "neutral"), (0, "misleading")])
def test_two_indistinct_texts_have_their_tone_judged(tone: object, word: str) -> None:
    record = {"question": "q", "answer": VAGUE, "reference": "Unknown.", "contexts": ["x"]}
    judge = rm.ScriptedJudge(tone=tone)
    score = rm.score("faithfulness", record, judge=judge)
    assert score.value == float(tone)  # type: ignore[arg-type]
    assert word in score.reason
    assert score.details["rule"] == "tone"
    assert [question.kind for question in judge.asked] == ["tone"]


def test_a_tone_that_is_none_of_three_is_an_error() -> None:
    record = {"answer": VAGUE, "reference": "Unknown.", "contexts": ["x"]}
    with pytest.raises(JudgeReplyError, match="faithfulness"):
        rm.score("faithfulness", record, judge=rm.ScriptedJudge(tone=0.7))


def test_a_missing_answer_is_missing() -> None:
    with pytest.raises(MissingFieldError) as caught:
        rm.score("faithfulness", {"reference": "r", "contexts": ["x"]})
    assert (caught.value.field, caught.value.metric) == ("answer", "faithfulness")


def test_what_counts_as_indistinct_is_an_option() -> None:
    judge = rm.ScriptedJudge(facts=FACTS)
    vague = {**CLEAR, "answer": "Ask the caretaker."}
    assert rm.score("faithfulness", vague, judge=judge).value == 0.5
    assert rm.score("faithfulness", vague, judge=judge, indistinct=["ask the caretaker"]).value == 0.0
    assert rm.score("faithfulness", vague, judge=judge, indistinct=lambda text: "Ask" in text).value == 0.0
    assert rm.score("faithfulness", {**CLEAR, "answer": VAGUE}, judge=judge, indistinct="off").value == 0.5
    assert rm.score("faithfulness", {**CLEAR, "answer": " "}, judge=judge, indistinct="off").details["total"] == 0


@pytest.mark.parametrize("options", [{"indistinct": "on"}, {"no_context": "nan"}, {"preset": "lenient"}])
def test_options_that_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        faithfulness(**options)
    assert caught.value.param == next(iter(options))
