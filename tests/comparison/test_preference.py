from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Finding, Outcome, Prefer, Question
from mlflow_ragmetrics.errors import GateError, InvalidOptionError, JudgeError, MissingFieldError
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.results import results_of
from tests.judges.fake_models import FakeChatModel

Choice = Callable[[str, str], str]


class Chooses(rm.Judge):
    """Chooses by a function of the two answers, in the order given."""

    def __init__(self, choice: Choice, name: str = "chooses", readers: Callable[[str], float] | None = None) -> None:
        self.name, self.choice, self.readers = name, choice, readers
        self.asked: list[Prefer] = []

    def answer(self, questions: Sequence[Question[Any]]) -> Sequence[Outcome]:
        return [self._answer(question) for question in questions if isinstance(question, Prefer)]

    def _answer(self, question: Prefer) -> Outcome:
        self.asked.append(question)
        chosen = self.choice(question.first, question.second)
        if chosen == "error":
            return JudgeError("it failed")
        support = 0.8 if self.readers is None else self.readers(question.question)
        return Finding(chosen, f"because of {question.question}", support)


def first(one: str, two: str) -> str:
    return "first"


def longer(one: str, two: str) -> str:
    return "tie" if len(one) == len(two) else "first" if len(one) > len(two) else "second"


def right(one: str, two: str) -> str:
    """Prefers the answer that contains "right"; an error if one contains "fail"."""
    if "fail" in one + two:
        return "error"
    return "tie" if ("right" in one) == ("right" in two) else "first" if "right" in one else "second"


def side(answers: Sequence[str | None], name: str, **columns: Sequence[Any]) -> Evaluation:
    """An evaluation of rows 0, 1, … with these answers; ``columns`` are additional fields."""
    given = {"reference": ["the reference"] * len(answers), **columns}
    rows = [
        {"id": str(place), "question": f"question {place}", "answer": answer} | {k: v[place] for k, v in given.items()}
        for place, answer in enumerate(answers)
    ]
    return results_of(rm.evaluate(rows, ["coherence"]), name)


def test_what_holds_in_both_orders_counts() -> None:
    a = side(["right a"] * 4 + ["wrong a"] * 16, "A")
    b = side(["wrong b"] * 4 + ["right b"] * 12 + ["wrong b", "wrong b", "fail", "fail"], "B")
    judge = Chooses(right)
    found = rm.compare(a, b, preference=judge, rows=3)
    preference = found.preference
    assert [preference[name] for name in ("wins", "losses", "ties", "n_error")] == [12, 4, 2, 2]
    assert preference["win_rate"] == pytest.approx(13 / 18)
    assert preference["ci_low"] < 13 / 18 < preference["ci_high"]
    assert preference["flip_rate"] == 0
    assert found.to_dict()["preference"] == preference
    assert json.loads(json.dumps(found.to_dict()))["preference"]["wins"] == 12
    assert {each.question for each in judge.asked} == {f"question {place}" for place in range(20)}
    assert {(each.first, each.second) for each in judge.asked[:2]} == {("right a", "wrong b"), ("wrong b", "right a")}
    for text in (found.to_text(400), found.to_markdown(), found.to_html().replace("&#x27;", "'")):
        assert "B's answer is preferred in 12 of 18 rows, A's in 4, 2 tied" in text
        cause = "first cause: AllJudgesFailedError: no judge answered (chooses: it failed)"
        assert f"2 rows could not be judged, {cause}" in text


def test_a_comparison_without_a_judge_has_no_preference() -> None:
    found = rm.compare(side(["x", "y"], "A"), side(["x", "z"], "B"))
    assert found.preference is None
    assert found.to_dict()["preference"] is None
    assert "preferred" not in found.to_text()
    with pytest.raises(InvalidOptionError, match="rubric= needs preference="):
        rm.compare(side(["x", "y"], "A"), side(["x", "z"], "B"), rubric="short")


def test_a_judge_that_always_takes_the_first_has_only_ties() -> None:
    found = rm.compare(side(["a"] * 30, "A"), side(["b"] * 30, "B"), preference=Chooses(first)).preference
    assert (found["win_rate"], found["ties"], found["flip_rate"]) == (0.5, 30, 1.0)
    assert found["ci_low"] < 0.5 < found["ci_high"]
    assert found["rows"] == []


@pytest.mark.parametrize(
    ("a", "b", "outcome"),
    [
        ("the same  text", "the same text", "ties"),
        ("an answer", "", "losses"),
        ("an answer", None, "losses"),
        ("an answer", "Error code: 429 - Rate limit reached", "losses"),
        ("I don't know.", "an answer", "wins"),
        (None, "an answer", "wins"),
        ("I don't know.", "", "ties"),
        (None, "Error code: 500", "ties"),
    ],
)
def test_rules_that_take_no_call(a: str | None, b: str | None, outcome: str) -> None:
    judge = Chooses(first)
    rows = ["one"], ["two"]
    found = rm.compare(side([a, *rows[0]], "A"), side([b, *rows[1]], "B"), preference=judge)
    counts = {name: found.preference[name] - (name == "ties") for name in ("wins", "losses", "ties")}
    assert counts == {"wins": 0, "losses": 0, "ties": 0, outcome: 1}
    assert {each.question for each in judge.asked} == {"question 1"}
    assert found.preference["n_by_rule"] == 1
    assert found.preference["flip_rate"] == 1.0  # in the row sent to the judge
    assert "1 decided by rule" in found.to_text(400)
    (score,) = found.preference.report.rows[0].scores.values()
    assert score.reason.startswith({"wins": "by rule: A ", "losses": "by rule: B ", "ties": "by rule: "}[outcome])


def test_a_refusal_is_judged_where_the_reference_refuses_too() -> None:
    references = ["There is no information about this."] * 2
    a = side(["It is 42.", "It is 42."], "A", reference=references)
    b = side(["I don't know.", "Error code: 500"], "B", reference=references)
    judge = Chooses(lambda one, two: "first" if one == "I don't know." else "second")
    found = rm.compare(a, b, preference=judge).preference
    assert (found["wins"], found["losses"]) == (1, 1)
    assert {each.question for each in judge.asked} == {"question 0"}


def test_all_rows_are_accounted_for() -> None:
    a = side(["right", "x", "fail", "same", "only a"], "A")
    b = side(["x", "", "y", "same"], "B")
    found = rm.compare(a, b, preference=Chooses(right))
    preference = found.preference
    judged = preference["wins"] + preference["losses"] + preference["ties"]
    assert judged + preference["n_error"] == len(found.pairing) == 4
    assert "Rows: 3 paired, 1 unscored in both, 1 in A's run only" in found.to_text(400)


def test_rows_with_different_questions_are_not_judged() -> None:
    a, b = side(["a", "b"], "A"), side(["c", "d"], "B", question=["question 0", "something else"])
    found = rm.compare(a, b, preference=Chooses(first))
    assert found.preference["n_error"] == 1
    assert "the runs ask different questions in this row" in found.to_text(400)


def test_runs_without_questions_cannot_be_judged() -> None:
    both = [results_of(rm.evaluate([{"id": "1", "answer": t}], ["coherence"]), t) for t in "ab"]
    with pytest.raises(MissingFieldError, match="question"):
        rm.compare(*both, preference=Chooses(first))


def test_the_judge_sees_what_both_runs_have() -> None:
    passages = [["one"], ["two"], ["three"]], [["one"], ["other"], []]
    a = side(["a", "b", "c"], "A", contexts=passages[0], reference=[None, "r", "s"])
    b = side(["d", "e", "f"], "B", contexts=passages[1], reference=["q", None, "t"])
    judge = Chooses(first)
    rm.compare(a, b, preference=judge)
    seen = {each.question[-1]: (each.contexts, each.references) for each in judge.asked}
    assert seen == {"0": (("one",), ("q",)), "1": ((), ("r",)), "2": ((), ())}


def lengths(whole: int, similar: int, *, shift: int = 0) -> tuple[Evaluation, Evaluation]:
    """``whole`` pairs in which B is twice as long, and ``similar`` pairs in which either is slightly longer."""
    answers_a = ["w" * 100] * whole + ["v" * (100 + place % 2) for place in range(similar)]
    answers_b = ["x" * 200] * whole + ["y" * (101 - place % 2 + shift) for place in range(similar)]
    return side(answers_a, "A"), side(answers_b, "B")


def test_a_judge_that_prefers_the_longer_is_shown_by_the_length_line() -> None:
    found = rm.compare(*lengths(60, 40), preference=Chooses(longer))
    assert (found.preference["win_rate"], found.preference["n_similar_length"]) == (0.8, 40)
    assert found.preference["win_rate_similar_length"] == 0.5
    warned = "the judge may prefer by length: the win rate is 0.80, and 0.50 among answers of similar length"
    assert any(warned in each for each in found.warnings)
    assert warned in found.to_text(400)


def test_a_judge_that_does_not_read_lengths_is_not_accused() -> None:
    found = rm.compare(*lengths(60, 40), preference=Chooses(lambda one, two: "first" if one[0] in "xy" else "second"))
    assert found.preference["win_rate"] == 1.0
    assert not any("length" in each for each in found.warnings)


@pytest.mark.parametrize("similar", [0, 29])
def test_too_few_similar_lengths_to_tell_are_a_warning_if_the_longer_always_wins(similar: int) -> None:
    found = rm.compare(*lengths(60, similar), preference=Chooses(longer))
    warned = "may prefer by length: the longer answer is preferred in 60 of 60 decided rows, and too few have similar"
    assert any(warned in each for each in found.warnings)
    fair = rm.compare(*lengths(60, 29), preference=Chooses(lambda one, two: "tie"))
    assert not any("length" in each for each in fair.warnings)


def test_of_several_judges_the_majority_decides() -> None:
    judges = [Chooses(right, "one"), Chooses(right, "two"), Chooses(first, "three")]
    a, b = side(["right", "wrong", "wrong"], "A"), side(["wrong", "right", "false"], "B")
    found = rm.compare(a, b, preference=judges)
    assert [found.preference[name] for name in ("wins", "losses", "ties")] == [1, 1, 1]
    assert found.preference["flip_rate"] == pytest.approx(1 / 3)
    assert "Agreement of the judges on preferred" in found.to_text(400)
    two = rm.compare(a, b, preference=judges[1:]).preference
    assert two["ties"] == 3  # one of two is not a majority


def test_the_most_decisive_rows_come_first() -> None:
    judge = Chooses(right, readers=lambda question: {"0": 0.6, "1": 0.9}.get(question[-1], 0.7))
    found = rm.compare(side(["right"] * 3, "A"), side(["no"] * 3, "B"), preference=judge, rows=2)
    assert [(row["id"], row["preferred"]) for row in found.preference["rows"]] == [("1", "A"), ("2", "A")]
    assert found.preference["rows"][0]["reason"] == "because of question 1"
    assert "1 A preferred  question 1" in found.to_text(400)


def test_groups_are_those_of_the_comparison() -> None:
    names = [f"conversation {place % 12}" for place in range(60)]
    answers = ["right" if place % 12 < 8 else "no" for place in range(60)]
    a, b = side(["neither"] * 60, "A", topic=names), side(answers, "B", topic=names)
    found = rm.compare(a, b, groups="topic", preference=Chooses(right)).preference
    alone = rm.compare(a, b, preference=Chooses(right)).preference
    assert found["win_rate"] == alone["win_rate"]
    assert found["ci_high"] - found["ci_low"] > 1.5 * (alone["ci_high"] - alone["ci_low"])


def test_a_gate_takes_the_preference() -> None:
    a, b = side(["right"] * 30, "A"), side(["wrong"] * 30, "B")
    found = rm.compare(a, b, preference=Chooses(right))
    assert found.preference["verdict"] == "regressed"
    with pytest.raises(GateError, match="preference: B's answer is preferred in 0 of 30 rows"):
        found.check()
    rm.compare(b, a, preference=Chooses(right)).check()


def test_a_gate_does_not_pass_where_rows_were_not_judged() -> None:
    a, b = side(["x"] * 30, "A"), side(["y"] * 28 + ["fail"] * 2, "B")
    found = rm.compare(a, b, preference=Chooses(right))
    with pytest.raises(GateError, match="28 paired, 2 unscored in both"):
        found.check()
    found.check(["improved"])


def reply(better: Any, readers: Any = 80, reason: str = "A names the year.") -> str:
    return json.dumps({"preference": [{"id": "question", "reason": reason, "better": better, "readers": readers}]})


def test_a_chat_model_is_asked_twice_a_row_and_found_again_in_the_cache(tmp_path: Path) -> None:
    model = FakeChatModel(reply=lambda messages: reply("A" if "answer A]\nin 1789" in messages[1].content else "B"))
    suite = rm.Suite(["rouge"], judge=rm.ChatJudge(model), cache=tmp_path / "cache.db", concurrency=1)
    a, b = side(["long ago"] * 3, "A"), side(["in 1789"] * 3, "B", history=[[{"role": "user", "content": "Hi"}]] * 3)
    found = rm.compare(a, b, preference=suite).preference
    assert (found["wins"], found["flip_rate"], len(model.sent)) == (3, 0.0, 6)
    system, human = (message.content for message in model.sent[0])
    assert "rubric: a better answer is correct" in system
    assert re.findall(r"\[\w{16} (.*)\]", human) == ["history", "question", "reference", "answer A", "answer B", "end"]
    rm.compare(a, b, preference=suite)
    assert len(model.sent) == 6
    rm.compare(a, b, preference=suite, rubric="the shorter one")
    assert len(model.sent) == 12
    assert "rubric: the shorter one" in model.sent[-1][0].content
    assert "correct (it agrees" not in model.sent[-1][0].content
    with pytest.raises(InvalidOptionError, match="rubric=' '"):
        rm.compare(a, b, preference=suite, rubric=" ")


@pytest.mark.parametrize(
    ("answered", "said"),
    [
        (reply("neither"), '"better" must be A, B or tie'),
        (reply(None), '"better" must be A, B or tie'),
        (reply("A", 30), '"readers" must be a number from 50 to 100'),
        ("I cannot choose between these.", "refused to answer"),
        (ValueError("context length exceeded: 9000 tokens"), "context length"),
    ],
)
def test_a_refusal_to_choose_is_an_error_of_the_row(answered: Any, said: str) -> None:
    model = FakeChatModel(reply=lambda messages: answered if "old 1" in messages[1].content else reply("tie"))
    a, b = side(["old 0", "old 1"], "A"), side(["new 0", "new 1"], "B")
    found = rm.compare(a, b, preference=rm.ChatJudge(model, attempts=1))
    assert [found.preference[name] for name in ("wins", "losses", "ties", "n_error")] == [0, 0, 1, 1]
    assert said in " ".join(found.warnings)


def test_a_judge_that_chooses_something_else_is_an_error_of_the_row() -> None:
    found = rm.compare(side(["x"], "A"), side(["y"], "B"), preference=rm.ScriptedJudge(preference="both"))
    assert found.preference["n_error"] == 1
    assert "the judge chose 'both', not first, second or tie" in " ".join(found.warnings)


def test_the_scripted_judge_answers() -> None:
    a, b = side(["x", "yy"], "A"), side(["zz", "w"], "B")
    found = rm.compare(a, b, preference=rm.ScriptedJudge(preference=longer)).preference
    assert (found["wins"], found["losses"], found["n_error"]) == (1, 1, 0)
    silent = rm.compare(a, b, preference=rm.ScriptedJudge()).preference
    assert (silent["n_error"], silent["win_rate"], silent["ci_low"], silent["flip_rate"]) == (2, None, None, None)


def test_the_lexical_judge_compares_correctness_and_support_and_says_how_weak_it_is() -> None:
    reference, passage = ["The tower opened in 1889."], [["The Eiffel Tower opened in 1889 in Paris."]]
    for columns in ({"reference": reference}, {"reference": [None], "contexts": passage}):
        a = side(["Bananas are grown in Ecuador."], "A", **columns)
        b = side(["The tower opened in 1889."], "B", **columns)
        found = rm.compare(a, b, preference="lexical").preference
        assert (found["wins"], found["flip_rate"]) == (1, 0.0)
        assert "That is a weak hint" in found["rows"][0]["reason"]
    bare = [side([text], text, reference=[None]) for text in ("one", "two")]
    found = rm.compare(*bare, preference="lexical")
    assert "compares answers by a reference or passages; that needs a language model" in " ".join(found.warnings)
    ruled = rm.compare(a, b, preference="lexical", rubric="politeness")
    assert "cannot compare answers by a rubric" in " ".join(ruled.warnings)


def test_the_reason_is_that_of_the_order_with_a_first() -> None:
    class Counts(Chooses):
        def _answer(self, question: Prefer) -> Outcome:
            return Finding(self.choice(question.first, question.second), f"because of {question.first}", 0.9)

    found = rm.compare(side(["right", "x"], "A"), side(["y", "z"], "B"), preference=Counts(right)).preference
    assert [row["reason"] for row in found["rows"]] == ["because of right"]


@pytest.mark.parametrize(("similar", "warns"), [(70, True), (90, False)])
def test_a_bias_for_length_is_told_if_it_goes_beyond_the_interval(similar: int, warns: bool) -> None:
    """Of 100 rows, only the longer answer of B is preferred: the win rate moves away from one half with their share."""
    found = rm.compare(*lengths(100 - similar, similar), preference=Chooses(longer))
    distance = found.preference["win_rate"] - found.preference["win_rate_similar_length"]
    half = (found.preference["ci_high"] - found.preference["ci_low"]) / 2
    assert (distance > half) is warns
    assert any("length" in each for each in found.warnings) is warns
