from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.text.words import has_content, has_words, normalize, plain_sentences, terms, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("What features does your API have?", ["what", "features", "does", "your", "api", "have"]),
        ("REST, real-time GraphQL", ["rest", "real-time", "graphql"]),
        ("-start- _end_ --", ["start", "end"]),
        ("it is 2.5 or 100", ["100"]),
        ("don't don’t", ["don", "don"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("ﬁnance Ｆｕｌｌ", ["finance", "full"]),
        ("Париж — столица", ["париж", "столица"]),
        ("cafe\u0301 café", ["café", "café"]),
        ("हिन्दी", ["हिन्दी"]),
        ("https://example.com/a_b-c", ["https", "example", "com", "a_b-c"]),
        ("🤷 shrug 🤷", ["shrug"]),
        ("巴黎是首都", ["巴黎", "黎是", "是首", "首都"]),
        ("猫", ["猫"]),
        ("covid-19型コロナ", ["covid-19", "型コ", "コロ", "ロナ"]),
        ("ｺﾛﾅ", ["コロ", "ロナ"]),
        ("서울은 수도", ["서울은"]),
    ],
)
def test_terms(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  It isn't\nso - really ", ["It", "isn't", "so", "-", "really"]),
        ("是的。", ["是", "的"]),
        ("東京Tower is 高い", ["東", "京", "Tower", "is", "高", "い"]),
        ("", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("?!...", []),
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        (
            "Version 2.5 is out. See www.example.com/a.b today.",
            ["Version 2.5 is out.", "See www.example.com/a.b today."],
        ),
        ("Really?! Yes... no", ["Really?!", "Yes...", "no"]),
        ("One line\nstill the same. Next", ["One line\nstill the same.", "Next"]),
        ('He said "Go." Then (he left.) Now', ['He said "Go."', "Then (he left.)", "Now"]),
        ("“Stop.” «Да.» Нет", ["“Stop.”", "«Да.»", "Нет"]),
        ("The U.S.'s law", ["The U.S.'s law"]),
        ("巴黎是首都。东京也是！真的？", ["巴黎是首都。", "东京也是！", "真的？"]),
        ("「はい。」そうです。", ["「はい。」", "そうです。"]),
        ("A. * - . B", ["A.", "B"]),
        ("e.g.this", ["e.g.this"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert plain_sentences(text) == expected


@pytest.mark.parametrize(("text", "expected"), [(None, False), ("", False), ("—…🤷", False), ("0", True), ("я", True)])
def test_has_content(text: str | None, expected: bool) -> None:
    assert has_content(text) is expected


@given(st.text())
def test_every_text_is_split_without_loss(text: str) -> None:
    assert all(has_content(sentence) for sentence in plain_sentences(text))
    assert sum(map(str.isalnum, "".join(plain_sentences(text)))) == sum(map(str.isalnum, text))
    assert all(word and not word.isspace() for word in words(text))
    assert has_content(text) == bool(plain_sentences(text))


@given(st.text())
def test_terms_are_stable(text: str) -> None:
    found = terms(text)
    assert found == terms(text)
    assert terms(" ".join(term for term in found if term.isascii())) == [term for term in found if term.isascii()]


@given(st.text())
def test_words_are_terms_on_their_own(text: str) -> None:
    assert terms(text) == [term for word in text.split() for term in terms(word)]


@given(st.text(alphabet=st.characters() | st.sampled_from(" 巴")), st.integers(1, 4))
def test_has_words(text: str, least: int) -> None:
    assert has_words(text, least) == (len(words(text)) >= least)


def test_a_returned_list_is_the_callers_own() -> None:
    terms("shared text").clear()
    assert terms("shared text") == ["shared", "text"]


@given(st.text())
def test_normalize_is_unicode_normalisation(text: str) -> None:
    assert normalize("NFC", text) == unicodedata.normalize("NFC", text)
    assert normalize("NFKC", text) == unicodedata.normalize("NFKC", text)
