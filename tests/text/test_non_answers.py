from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.text.non_answers import (
    States,
    declines,
    gives_no_answer,
    is_error_text,
    is_indistinct,
    states_of,
)
from mlflow_ragmetrics.text.words import has_content

NON_ANSWERS = """
I don't know.|I don’t know|dont know|I do not know|I don't really know.|I don't know, I'm not sure.|No idea
I have no idea|I'm not sure.|not sure|I am not certain.|Cannot say|I can't tell|I cannot answer that.|Unclear.
I cannot answer the question based on the provided context.|I'm confused|It is unclear|No information
There is no information|There is no relevant information found in the context.|No answer|No response
No relevant response found|No information was found in the documents.|Not mentioned|Not mentioned in the text.
It is not specified.|The answer is not mentioned in the context.|N/A|n.a.|n / a|None|none.|Unknown|It is unknown.
"I don't know"|[not sure]|(I have no idea.)|I don't know. I have no idea.|I'm sorry, but I don't know the answer.
I'm unable to answer that.|I do not have enough information to answer the question.|I couldn't find any information.
The provided context does not contain information about it.|The context does not mention the capital of France.
There is no information about the capital of France in the provided documents.|There isn't enough information
Не знаю|(не знаю)|«Не знаю.»|Я не знаю, что сказать|Нет информации|К сожалению, нет информации.|Не уверен.
Я не уверена|Неизвестно|Затрудняюсь ответить|Понятия не имею|Информация отсутствует|В документах не указано
Ничего не знаю|Не знаю. Нет информации.|н/д
"""
ANSWERS = """
no|No.|Yes|yes|0|42|Paris|nothing|Nobody|No one|nobody knows|None of them|None of the above|Unknown Pleasures
The unknown soldier|The author is unknown.|I'm not sure. Paris is the capital of France.|Information|sorry
I'm not sure, but I think Paris.|I don't know, maybe Paris|I don't know. Paris.|I'm not sure it is a good idea
I don't know anyone who uses it|I don't know if I would trust it|No, it is not.|It is not available.|She was confused.
There is no information about the price, but it is 5 dollars.|There is no information about it but Y is Z.
The treaty is not mentioned in the letter of 1848.|I did not say that|No idea is too small
нет|да|Не знаю, возможно Париж|Нет информации, но Париж столица|Не знаю. Париж.|неизвестный солдат|巴黎
"""


def lines(table: str) -> list[str]:
    return [text for text in table.replace("\n", "|").split("|") if text]


@pytest.mark.parametrize("text", [None, "", "   ", "...", "—", "🤷", "?!", *lines(NON_ANSWERS)])
def test_non_answers_are_indistinct(text: str | None) -> None:
    assert is_indistinct(text)


@pytest.mark.parametrize("text", lines(ANSWERS))
def test_answers_are_distinct(text: str) -> None:
    assert not is_indistinct(text)


def test_further_phrases() -> None:
    assert not is_indistinct("Kein Kommentar!")
    assert is_indistinct("Kein Kommentar!", ["kein Kommentar"])
    assert is_indistinct("Kein Kommentar. I don't know.", ["KEIN KOMMENTAR", ""])
    assert not is_indistinct("Paris", ["", "kein Kommentar"])


@pytest.mark.parametrize("words", [1, 5, 12, 40])
def test_a_further_phrase_may_be_long(words: int) -> None:
    phrase = " ".join(f"quux{n}" for n in range(words))
    assert is_indistinct(f"{phrase.title()}. {phrase}!", [phrase, "no comment"])
    assert not is_indistinct(f"{phrase} quux", [phrase])
    assert not is_indistinct(phrase)


@pytest.mark.parametrize("words", [1, 19, 20, 21])
def test_a_topic_that_is_not_mentioned_has_at_most_twenty_words(words: int) -> None:
    assert is_indistinct("The context does not mention " + "towers " * words) is (words <= 20)


@given(st.text())
def test_any_text_is_decided(text: str) -> None:
    assert is_indistinct(text) or has_content(text)


@given(st.lists(st.sampled_from(lines(NON_ANSWERS)), min_size=1), st.sampled_from(["Paris.", "It is 42.", "Yes."]))
def test_one_answer_among_non_answers_makes_a_text_distinct(non_answers: list[str], answer: str) -> None:
    parts = [f"{text.rstrip('.')}." for text in non_answers]
    assert is_indistinct(" ".join(parts))
    assert not is_indistinct(" ".join([*parts, answer]))


@pytest.mark.parametrize(
    "text", ["I don't know. " * 50_000, "information " * 80_000, "n/" * 400_000 + "a", "'s" * 400_000]
)
def test_long_texts_take_linear_time(text: str) -> None:
    start = time.perf_counter()
    is_indistinct(text)
    assert time.perf_counter() - start < 15


@pytest.mark.parametrize(("before", "after", "expected"), [(6, 20, True), (7, 0, False), (0, 21, False)])
def test_a_sentence_only_declines_if_it_says_little_more(before: int, after: int, expected: bool) -> None:
    assert declines("ja " * before + "weiß ich nicht" + " da" * after) is expected
    assert declines("哎呀" * before + "我不知道" + "好的" * after) is expected


def test_a_sentence_that_declines_is_short() -> None:
    text = "Das weiß ich nicht"
    assert declines(text.ljust(200, "!"))
    assert not declines(text.ljust(201, "!"))


def test_a_failure_is_told_in_sixty_words() -> None:
    assert is_error_text("Internal Server Error:" + " word" * 57)
    assert not is_error_text("Internal Server Error:" + " word" * 58)


@pytest.mark.parametrize(
    ("text", "extra", "off", "ruled"),
    [("Paris.", ("paris",), "clear", "indistinct"), ("Unknown.", (), "clear", "indistinct")],
)
def test_the_option_says_what_is_indistinct(text: str, extra: tuple[str, ...], off: str, ruled: str) -> None:
    assert states_of(text, None, "off") == States(off, "missing")  # type: ignore[arg-type]
    assert states_of("Red.", text, extra) == States("clear", ruled)  # type: ignore[arg-type]
    assert states_of(text, "Red.", lambda each: each == text) == States("indistinct", "clear")
    assert states_of(None, "Unknown.") == States("missing", "indistinct")
    assert States("clear", "missing").details("judged", {"n": 1}, m=2) == {
        "n": 1,
        "m": 2,
        "answer_state": "clear",
        "reference_state": "missing",
        "rule": "judged",
    }


@pytest.mark.parametrize(("answer", "expected"), [(None, False), ("", True), ("No idea.", True), ("Red.", False)])
def test_a_missing_answer_is_no_non_answer(answer: str | None, expected: bool) -> None:
    assert gives_no_answer(answer) is expected
