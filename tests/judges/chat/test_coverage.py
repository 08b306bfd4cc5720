"""Claims compared with their text: uncovered sentences are asked about once more, then reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims, Extraction
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from tests.judges.fake_models import FakeChatModel, dutiful, dutiful_reply, scripted

TEXT = "It is red. Shall I go on? It was built in 1889."
RED, BUILT = {"claim": "It is red.", "sentences": [1]}, {"claim": "It was built in 1889.", "sentences": [3]}
ODD = {"claim": "Two.", "sentences": []}


def claims(*entries: Any, none: tuple[int, ...] = ()) -> str:
    return json.dumps({"texts": [{"id": "t1", "claims": list(entries), "none": list(none)}]})


@pytest.mark.parametrize(
    "reply",
    [
        claims(RED, BUILT, none=(2,)),
        claims("It is red.", "The thing was built in 1889."),
        claims({"claim": "It is red and built in 1889.", "sentences": ["1", 3]}, none=(2,)),
        claims({"claim": "It is red and built in 1889.", "sentences": [1, 2, 3]}),
        claims({**RED, "sentences": [1, "x", 2.5, None, "123456789"]}, BUILT, none=(2,)),
        claims(none=(1, 2, 3)),  # the judge's word
    ],
)
def test_a_list_that_covers_the_text_is_final(reply: str) -> None:
    model = scripted(reply)
    (found,) = ChatJudge(model).answer([Claims(TEXT)])
    assert len(model.sent) == 1
    assert not isinstance(found, Extraction) or not (found.unclaimed or found.at_odds)


@pytest.mark.parametrize(("words", "covers"), [(6, True), (7, False)])
def test_a_claim_that_names_no_sentence_covers_those_with_a_third_of_their_words(words: int, covers: bool) -> None:
    claim, text = "Red amber.", f"{' '.join(['Red', 'amber', 'green', 'white', 'black', 'brown', 'pink'][:words])}."
    model = scripted(claims({"claim": claim, "sentences": []}), claims({"claim": claim, "sentences": []}))
    (found,) = ChatJudge(model).answer([Claims(text)])
    assert found == ((claim,) if covers else Extraction((claim,), (text,), sentences=1))


def test_sentences_without_a_claim_are_asked_for_once_more() -> None:
    model = scripted(claims(RED), claims(RED, BUILT, none=(2,)))
    judge = ChatJudge(model)
    assert list(judge.answer([Claims(TEXT)])[0]) == ["It is red.", "It was built in 1889."]
    assert "sentence 3 of t1" in model.sent[1][-1].content
    assert judge.usage.snapshot()["repairs"] == 0  # the form was right


def test_what_is_left_out_twice_is_an_unsupported_claim_with_a_warning() -> None:
    listed = claims(RED, none=(2,))
    (found,) = ChatJudge(scripted(listed, listed)).answer([Claims(TEXT)])
    assert found == Extraction(("It is red.",), ("It was built in 1889.",), sentences=3, under_none=1)

    quotes = [{"passage": "p1", "text": "is red"}]
    verdict = {"id": "c1", "quotes": quotes, "reason": "So.", "support": 90, "verdict": "SUPPORTED"}
    model = scripted(listed, listed, json.dumps({"verdicts": [verdict]}))
    judge = ChatJudge(model, calls="full")
    score = rm.score("faithfulness", {"answer": TEXT, "contexts": ["It is red."]}, judge=judge)
    assert (score.value, score.details["unclaimed"], score.details["under_none"]) == (0.5, 1, 1)
    ((code, text),) = score.warnings
    assert code == "claims_missing"
    assert "“It was built in 1889.”" in text


def test_a_second_reply_that_is_worse_or_unusable_does_not_count() -> None:
    one = claims(RED, {"claim": "Two.", "sentences": []})
    for again in (claims({"claim": "…", "sentences": [1]}), "I have checked it."):
        model = scripted(one, again)
        (found,) = ChatJudge(model).answer([Claims(TEXT)])
        assert (found.claims, found.at_odds) == (("It is red.",), ("Two.",))
        assert "claim 2 of t1 does not say what its sentences say" in model.sent[1][-1].content


@pytest.mark.parametrize(
    ("sentence", "claim", "matches"),
    [
        ("It opens daily.", "The gate opened.", True),
        ("It operates daily.", "The gate opened.", False),
        ("Deep crimson.", "The door has a color.", True),  # the question's words count for so short a sentence
        ("Deep dark crimson.", "The door has a color.", False),
    ],
)
def test_a_claim_shares_the_beginning_of_a_word_with_its_sentence(sentence: str, claim: str, matches: bool) -> None:
    reply = claims({"claim": claim, "sentences": [1]})
    model = scripted(reply, reply)
    ChatJudge(model).answer([Claims(sentence, question="Which color has the door?")])
    assert (len(model.sent) == 1) == matches


def test_a_reply_that_accounts_for_no_sentence_is_an_error() -> None:
    reply = claims()
    (failure,) = ChatJudge(scripted(reply, reply)).answer([Claims(TEXT)])
    assert isinstance(failure, JudgeReplyError)
    assert failure.code == "claims_missing"
    record = {"answer": TEXT, "contexts": ["It is red."]}
    assert rm.score("faithfulness", record, judge=scripted(reply, reply), on_missing="skip").value is None


def test_what_the_judge_puts_under_none_is_counted_and_no_more() -> None:
    rows = [{"answer": "It is red. Have a nice day. Best regards, Ann", "contexts": ["It is red."]}] * 2
    replies = claims({**RED, **SUPPORT}, none=(2, 3)), claims(none=(1, 2, 3))
    suite = rm.Suite(["faithfulness"], judge=ChatJudge(scripted(*replies), calls="single"), concurrency=1)
    assert suite.evaluate(rows[:1]).metrics["faithfulness/under_none"] == pytest.approx(2 / 3)
    score = suite.evaluate(rows[1:]).rows[0].scores["faithfulness"]
    assert (score.value, score.details["rule"], score.warnings) == (1.0, "no_claims", ())


@pytest.mark.parametrize(
    ("text", "numbered"),
    [
        ("# Colour\nIt is red.", "- # Colour\n1: It is red."),
        ("| Name | Height |\n|---|---|\n| Mast | 40 m |", "- # Name | Height |\n1: | Mast | 40 m |"),
        ("It is red.\n12.\nIt is old.", "1: It is red.\n- 12.\n2: It is old."),
        ("42", "1: 42"),
    ],
)
def test_only_pieces_that_may_claim_something_have_a_number(text: str, numbered: str) -> None:
    model = dutiful()
    ChatJudge(model).answer([Claims(text)])
    assert f" t1]\n{numbered}\n[" in model.sent[0][1].content


def test_the_short_reply_is_read_with_its_question() -> None:
    model = dutiful()
    record = {"question": "Is it red?", "answer": "Yes.", "contexts": ["It is red."], "history": HISTORY}
    rm.score("faithfulness", record, judge=ChatJudge(model, calls="full"))
    first, second = (messages[1].content for messages in model.sent)
    assert "question]\nIs it red?" in first
    assert "history]\nuser: Look at the barn." in first
    assert "question]\nIs it red?" in second
    assert "Look at the barn." not in second  # the topic of a text is not evidence


HISTORY = [{"role": "user", "content": "Look at the barn."}, {"role": "assistant", "content": "I do."}]


def test_a_replaced_prompt_of_the_old_form_still_works(tmp_path: Any) -> None:
    (tmp_path / "claims.txt").write_text("Split each text into claims.", encoding="utf-8")
    (tmp_path / "claims_form.txt").write_text('{"texts":[{"id":"t1","claims":["…"]}]}', encoding="utf-8")
    model = scripted(claims("It is red.", "It was built in 1889."))
    assert ChatJudge(model, prompts=tmp_path).answer([Claims(TEXT)]) == [("It is red.", "It was built in 1889.")]


SUPPORT = {"quotes": [{"passage": "p1", "text": "is red"}], "reason": "So.", "support": 80, "verdict": "SUPPORTED"}
RECORD = {"answer": TEXT, "contexts": ["It is red.", "It is tall."]}


def test_in_single_claims_and_verdicts_are_one_call() -> None:
    none = {"quotes": [], "reason": "Nothing.", "support": 20, "verdict": "NEUTRAL"}
    model = scripted(claims({**RED, **SUPPORT}, {**BUILT, **none}, none=(2,)))
    suite = rm.Suite(["faithfulness", "weakest_claim", "fact_recall"], judge=rm.ChatJudge(model, calls="single"))
    scores = suite.evaluate([RECORD]).rows[0].scores
    assert {key: score.value for key, score in scores.items()} == {
        "faithfulness": 0.5,
        "weakest_claim": 0.2,
        "fact_recall": 0.5,
    }
    assert scores["faithfulness"].items[0].evidence[0].quote == "is red"
    assert len(model.sent) == 1


def test_in_single_claims_judged_by_other_passages_are_verified_by_these() -> None:
    model = dutiful()
    suite = rm.Suite(["faithfulness"], judge=rm.ChatJudge(model, calls="single"))
    report = suite.evaluate([RECORD, {**RECORD, "contexts": ["Another passage."]}], progress=False)
    assert [row.scores["faithfulness"].value for row in report.rows] == [1.0, 1.0]
    assert "Another passage." in model.sent[-1][1].content


def test_in_single_answers_are_kept_on_disk_with_their_verdicts(tmp_path: Any) -> None:
    model = dutiful()
    for _ in range(2):
        suite = rm.Suite(["faithfulness"], judge=rm.ChatJudge(model, calls="single"), cache=tmp_path / "cache.db")
        score = suite.evaluate([RECORD]).rows[0].scores["faithfulness"]
        assert [item.support for item in score.items] == [0.9] * 3
    assert len(model.sent) == 1


def test_in_single_a_long_text_is_asked_about_in_pieces_that_hold_all_of_it() -> None:
    text = " ".join(f"Sentence number {number} is here." for number in range(1, 31))
    model = FakeChatModel(reply=lambda said: json.dumps(dutiful_reply(said[0].content, said[1].content)))
    record = {"answer": text, "contexts": ["It is red."]}
    score = rm.score("faithfulness", record, judge=rm.ChatJudge(model, calls="single"))
    assert [item.text for item in score.items] == [f"Sentence number {number} is here." for number in range(1, 31)]
    assert len(model.sent) == 3
    assert "history]\nbefore this text: Sentence number 1 is here." in model.sent[1][1].content


def test_in_single_texts_on_other_passages_can_be_asked_together() -> None:
    asked = [Claims("One.", passages=("a",)), Claims("Two.", passages=("b", "c"))]
    model = dutiful()
    answers = ChatJudge(model, calls="single").answer(asked)
    assert [answer.claims for answer in answers] == [("One.",), ("Two.",)]
    assert "t2 on p2-p3]" in model.sent[0][1].content


@pytest.mark.parametrize(
    ("question", "text", "claim"),
    [
        ("Is it safe for children?", "Yes.", "It is safe for children."),
        ("Who built it?", "He did it himself.", "Eiffel was the builder."),
        ("Когда открыт музей?", "По будням.", "Музей открыт по будням."),
        (None, "They opened it in 1889.", "The tower opens in 1889."),
    ],
)
def test_a_claim_that_resolves_what_a_sentence_refers_to_is_no_invention(
    question: str | None, text: str, claim: str
) -> None:
    model = scripted(claims({"claim": claim, "sentences": [1]}))
    assert ChatJudge(model).answer([Claims(text, question=question)]) == [(claim,)]


@pytest.mark.parametrize(
    ("first", "again"),
    [((RED, ODD), (RED, ODD, BUILT)), ((RED, ODD, BUILT), (RED, ODD)), ((RED,), (RED, BUILT))],
)
def test_of_two_lists_the_one_with_fewer_doubts_counts(first: Any, again: Any) -> None:
    (found,) = ChatJudge(scripted(claims(*first), claims(*again))).answer([Claims(TEXT)])
    assert "It was built in 1889." in (found.claims if isinstance(found, Extraction) else found)
