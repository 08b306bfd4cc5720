from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.judges.lexical.support import split_claims


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("Dr. J. F. Kennedy lived in the U.S. in 1917. He took vitamin C. It cost $1.5 million.", 3),
        ("It cost 2.5 dollars, e.g. on Monday; nobody ever knew why.", 2),
        ("He was born in 1920, and he died in 1980.", 2),
        ("Apples, pears and plums are fruit.", 1),
        ("Here are the steps:\n1. Mix the dough.\n2. Bake it.\n- Eat it.", 3),
        ("Он родился 5 мая 1920 г. в Москве. Работал, т. е. писал книги.", 2),
        ("Paris", 1),
        ("...", 0),
        ("", 0),
        ("日本の首都は東京です。人口は多い。", 2),
    ],
)
def test_claims_are_sentences_list_items_and_safe_clauses(text, claims):
    assert len(split_claims(text)) == claims


def test_citations_emphasis_and_signs_of_mathematics_are_removed():
    assert split_claims(r"**Paris** is the \*first\* capital [1][2].") == (r"Paris is the \*first\* capital.",)
    assert split_claims(r"It is $40$ m or \(41\) m and cost $5.") == ("It is 40 m or 41 m and cost $5.",)


def test_questions_and_lead_ins_are_not_claims_unless_alone():
    assert split_claims("It is blue. Do you want more?") == ("It is blue.",)
    assert split_claims("Do you want more?") == ("Do you want more?",)


@pytest.mark.parametrize(
    "remark",
    [
        "Let me know if you need more.",
        "The passages do not mention the price.",
        "It is not possible to determine the price.",
        "В тексте это не указано.",
    ],
)
def test_courtesies_and_remarks_about_the_passages_are_not_claims(remark):
    assert split_claims(f"The sky is blue.\n{remark}") == ("The sky is blue.",)


@given(st.text(alphabet=st.sampled_from("ab A.?!\n;,1-")))
def test_claims_are_pieces_of_the_text(text):
    assert all(claim and claim in text for claim in split_claims(text))


@pytest.mark.parametrize(
    "around",
    [
        "# Summary\n{}",
        "Overview\n{}",
        "**Answer**\n{}",
        "Hi there! {}",
        "{}\nSource – mast.pdf",
        "{}\nSources:\n- mast.pdf\n- [Plan](https://example.org/plan)",
        "{} (véase la pág. 4)",
        "{} (cf. p. 4)",
        "{}\n来源：mast.pdf",
        "{} Viel Erfolg!\nMit freundlichen Grüßen\nAnna",
        "Bonne question ! {} Bonne journée !",
        "¡Buena pregunta! {} ¡Que tenga un buen día!",
        "Certo! {} Spero che questo aiuti.",
        "Olá! {} Boa sorte!",
        "好问题！ {} 希望对你有帮助。",
        "こんにちは。 {} お役に立てば幸いです。",
        "مرحبا! {}",
        "Hier ist die Antwort: {}",
        "{}\n(Passages 1 and 2)",
        "Final answer: {}",
        "Based on the text. {}",
        "Sure! Here is the answer: {}",
        "{}\n\nBest,\nTom",
        "To answer your question: {}",
        "Laut dem Text lautet die Antwort: {}",
        "D'après le texte, la réponse est : {}",
        "根据上下文，答案是：{}",
        "Q: How tall is it?\nA: {}",
        "Good catch! {} If you need anything else, just ask.",
        "{} N'hésitez pas à me contacter.",
        "<h2>Height</h2>{}",
        "<table><tr><th>Mast</th></tr><tr><td>{}</td></tr></table>",
        "Είναι ψηλός; {}",
    ],
)
def test_what_surrounds_a_claim_is_no_claim(around: str) -> None:
    assert split_claims(around.format("The mast is 40 m tall.")) == ("The mast is 40 m tall.",)


@pytest.mark.parametrize(
    "claim",
    ["Summary courts sit in town.", "Good harbours are rare.", "Sources of the Nile lie south.", "Great Britain."],
)
def test_a_claim_that_begins_like_a_courtesy_is_a_claim(claim: str) -> None:
    assert split_claims(f"It is red. {claim}") == ("It is red.", claim)
