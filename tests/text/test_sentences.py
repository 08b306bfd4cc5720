from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.judges.lexical.support import split_claims
from mlflow_ragmetrics.text.non_answers import asserts
from mlflow_ragmetrics.text.sentences import sentences, statements


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two? Three", ["One.", "Two?", "Three"]),
        ("# Title\nIt is so.\n1. First. Again.\n2) Second\n\n* Third\n  goes on", None),
        ("Wrapped\nline ends here.", ["Wrapped line ends here."]),
        ("It has three:\nred ones\nGreen ones", ["It has three:", "red ones", "Green ones"]),
        ("", []),
        ("***", []),
        (
            "It is 5 kg.It is old.He uses ASP.NET and v2.0.RC1.",
            ["It is 5 kg.", "It is old.", "He uses ASP.NET and v2.0.RC1."],
        ),
        ("```python\nimport os\n```", ["import os"]),
        ("- [x] Red\n- [ ] Blue", ["- [x] Red", "- [ ] Blue"]),
    ],
)
def test_statements(text: str, expected: list[str] | None) -> None:
    listed = ["# Title", "It is so.", "1. First.", "Again.", "2) Second", "* Third goes on"]
    assert statements(text) == (listed if expected is None else expected)


MARKS = dict.fromkeys(map(ord, "<&[【⁽⁰¹²³⁴⁵⁶⁷⁸⁹①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳"), " ")  # tags, entities, links, citations


@given(st.text(max_size=300).map(lambda text: text.translate(MARKS)))
def test_each_statement_is_one_line_and_no_letter_is_lost(text: str) -> None:
    found = statements(text)
    assert all(len(each.splitlines()) == 1 for each in found)
    assert [c for c in text if c.isalnum()] == [c for each in found for c in each if c.isalnum()]


@pytest.mark.parametrize(
    "sentence",
    [
        "It is red.",
        "Yes.",
        "Paris",
        "Boil the water.",
        "Да.",
        "Sure, it is 5 km away and takes an hour on foot if the weather is good enough for it.",
        "The passages do not say when it opens, but it closes at 5.",
    ],
)
def test_what_asserts_something(sentence: str) -> None:
    assert asserts(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Is it?",
        "Hello there!",
        "## Steps",
        "**Steps**",
        "Follow these steps:",
        "I don't know.",
        "I hope this helps!",
        "Let me know if you need more.",
        "Надеюсь, это поможет.",
        "Не знаю.",
        "—",
        "Как это?",
    ],
)
def test_what_does_not(sentence: str) -> None:
    assert not asserts(sentence)


@pytest.mark.parametrize(
    "text",
    [
        "The rate was set by Dr. Smith et al. in 1999 [1].|It fell.",
        "Some units, e.g. metres, i.e. lengths, vs. miles.|Then more.",
        "He lives in Washington D.C. and the U.S. Army knows it.|See No. 5.",
        "Did it help?|No.|It failed.",
        "J. F. Kennedy met George W. Bush in the U.S.|The day was long.",
        "It contains vitamin C.|It is cheap.",
        "It cost 2.5 dollars.|See www.example.com/a.b today.",
        "He said ... nothing and left… slowly.|Then it rained...|Nobody came.",
        "Он родился в 1920 г. в г. Туле, т. е. на юге.|Он учился в школе им. Пушкина.",
        "Kaiser Wilhelm II. kam am 3. 10. 1990.|Am 3. Okt. ging er.",
        "It uses .NET here.|A Ph.D. in law is rare.",
        "The mast is 40 m.|It took 5 s.|Caesar starb 44 v. Chr. in Rom.",
        "Вес 3 кг.|Цвет синий.",
        "(It is old.)|It is blue.",
        "巴黎是首都。|东京也是！|真的？",
        "هل هذا صحيح؟|نعم",
        "यह सच है।|हाँ",
        "डॉ. शर्मा आए।|Np. tak.|Ο κ. Παππάς ήρθε.|Zie bijv. hier.|EE. UU. es grande.",
        "Είναι ψηλός;|Ναι.|Mide 40 m.|¡Bien!",
    ],
)
def test_where_sentences_end(text: str) -> None:
    assert sentences(text.replace("|", " ")) == text.split("|")


def test_a_name_with_titles_and_initials_is_one_statement_and_its_citation_counts() -> None:
    answer = "The rate was set by Dr. Smith et al. in 1999 [1]."
    assert statements(answer) == [answer]
    row = {"answer": answer, "contexts": ["The rate was set by Dr. Smith et al. in 1999."]}
    assert rm.score("citation_recall", row, judge="lexical").value == 1.0


def test_list_items_table_rows_and_headings_are_pieces_of_their_own() -> None:
    text = "# Rates\n| city | rate |\n| Bonn | 2.5 % |\n1. Call us\n2. Write\n- or come\n**Hours**\nWe open at 9."
    listed = ["# Rates", "| city | rate |", "| Bonn | 2.5 % |", "1. Call us", "2. Write", "- or come", "**Hours**"]
    assert statements(text) == [*listed, "We open at 9."]
    assert statements("<h2>Rates</h2><p>It is 2.5 %.</p>") == ["# Rates", "It is 2.5 %."]


@given(st.text(alphabet=st.sampled_from("ab A.?!\n-1…")))
def test_sentences_stand_in_the_text_in_order(text: str) -> None:
    place = 0
    for sentence in sentences(text):
        place = text.index(sentence, place) + len(sentence)


@pytest.mark.parametrize(
    "mark",
    [
        r"{1}",
        r"［1］",
        r"〔1〕",
        r"$^{1}$",
        r"^1^",
        r"①",
        r"⁽¹⁾",
        r"¹⁻³",
        r"\[1\]",
        r"[[1]](https://e.org)",
        r"<a>1</a>",
        r"(doc_1)",
        r"(kb.pdf)",
        r"<1>",
        r" [doc1]",
        r"(p. 3)",
        r" (see p. 3)",
        r" (Smith, 2020)",
        r" (Smith & Jones 2020)",
        r" (see [1])",
        r" (Source: Doc 1)",
        r" (Passage 1, 2)",
        r" (ibid.)",
        r" ^[1]^",
        r" [[1]]",
        r" [^note]",
        r" (cf. [2])",
        r" ⟦1⟧",
        r"†",
        r" ([e.org](https://e.org/a?b=openai))",
        "\ue200cite\ue202turn0search0\ue201",
    ],
)
def test_a_mark_behind_a_stop_belongs_to_the_sentence_before(mark: str) -> None:
    mark = mark.replace("_", " ")
    found = split_claims(f"It is 40 m tall.{mark} It is old.{mark} It is blue.{mark}")
    assert found == ("It is 40 m tall.", "It is old.", "It is blue.")


@pytest.mark.parametrize(
    "marks",
    [
        "i. ii. iii.",
        "I. II. III.",
        "(i) (ii) (iii)",
        "① ② ③",
        "1️⃣ 2️⃣ 3️⃣",
        "1: 2: 3:",
        "1. 2. 3.",
        "(a) (b) (c)",
        "A. B. C.",
        "**1.** **2.** **3.**",
    ],
)
def test_marks_of_a_list_in_one_line_are_no_text(marks: str) -> None:
    one, two, three = (mark.replace("_", " ") for mark in marks.split())
    text = f"{one} Open the lid. {two} Pour water. {three} Close it."
    assert split_claims(text) == ("Open the lid.", "Pour water.", "Close it.")
